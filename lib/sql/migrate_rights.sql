-- migrate_rights: how many rights are not as job_grants says: a role lacks one, or everybody has it.
select (select count(*) from jobrun.lost_rights()) + (select count(*) from jobrun.public_functions())
