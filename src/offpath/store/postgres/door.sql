-- name: keep_templates
-- What a job of each task is like that the SQL door puts in. A row that says so already is not locked:
-- every worker that begins sends the same.
insert into offpath.task_default as d (task, template)
select b.one ->> 'task', b.one - '{id,task,input,fingerprint}'::text[]
from jsonb_array_elements(:batch::text::jsonb) as b (one)
where not exists (
    select from offpath.task_default k
    where k.task = b.one ->> 'task' and k.template = b.one - '{id,task,input,fingerprint}'::text[]
)
order by b.one ->> 'task' collate "C"
on conflict (task) do update set template = excluded.template
