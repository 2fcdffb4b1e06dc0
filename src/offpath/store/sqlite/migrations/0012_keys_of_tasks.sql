-- A unique key is kept as one text with the name of its task. Two pairs are never the same text.
--
-- The pair was task and key with a colon between, and a task's name may have one: "mail" with the key
-- "urgent:42" held the key of "mail:urgent" with "42". The name is written without colons now, which
-- changes nothing where it had none. (A worker of the release before goes on with the old text, so while
-- both run they do not see each other's keys of a task whose name has a colon or a percent sign.)

-- By way of a text that no key has, so that no new one meets another's old one.
update offpath_job set
    unique_key = char(31) || replace(replace(task, '%', '%25'), ':', '%3A')
        || substr(unique_key, length(task) + 1),
    unique_slot = case
        when unique_slot is not null
            then char(31) || replace(replace(task, '%', '%25'), ':', '%3A')
                || substr(unique_key, length(task) + 1)
    end
where
    unique_key is not null
    and (instr(task, '%') > 0 or instr(task, ':') > 0)
    and substr(unique_key, 1, length(task) + 1) = task || ':';

update offpath_job set
    unique_key = substr(unique_key, 2),
    unique_slot = case when unique_slot is not null then substr(unique_key, 2) end
where substr(unique_key, 1, 1) = char(31);
