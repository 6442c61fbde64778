-- migrate_rights: how many rights say something else than job_grants: roles lack them, or everybody has them.
select (select count(*) from jobrun.lost_rights()) + (select count(*) from jobrun.public_functions())
