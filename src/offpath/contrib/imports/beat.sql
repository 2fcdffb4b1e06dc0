-- name: beat_entries
-- The periodic tasks of django-celery-beat, each with its interval or its crontab.
select p.name, p.task, p.args, p.kwargs, p.queue, p.priority, p.expire_seconds,
       cast(p.enabled as integer), cast(p.one_off as integer),
       case when p.expires is null then 0 else 1 end,
       case when p.start_time > current_timestamp then 1 else 0 end,
       p.exchange, p.routing_key, p.headers,
       i.every, i.period,
       c.minute, c.hour, c.day_of_month, c.month_of_year, c.day_of_week, c.timezone
from django_celery_beat_periodictask p
left join django_celery_beat_intervalschedule i on i.id = p.interval_id
left join django_celery_beat_crontabschedule c on c.id = p.crontab_id
order by p.name

-- name: beat_disable_postgres
-- Disable entries that are schedules here by now.
update django_celery_beat_periodictask set enabled = false
where name in (select value from json_array_elements_text(:names::json))

-- name: beat_disable_sqlite
-- Disable entries that are schedules here by now.
update django_celery_beat_periodictask set enabled = 0
where name in (select value from json_each(:names))

-- name: beat_changed
-- Let a beat that runs read its entries anew.
update django_celery_beat_periodictasks set last_update = current_timestamp
