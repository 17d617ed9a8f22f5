-- What slurmctld does with each new job, see job_submit_plugins.html.
--
-- sbatch --export=NONE (or with any NAME=value) has slurmd load the user's login environment in namespaces of its own,
-- for which it has no right in a container: it would end, and the job with it (NODE_FAIL). The job gets the environment
-- of a login shell here instead, and slurmd is told that nothing is left to do.

local function login_environment(user)
    local found = {SHELL = "/bin/bash"}
    if user then
        found.USER, found.LOGNAME, found.HOME = user, user, "/home/" .. user
    end
    for line in io.lines("/etc/profile.d/lab.sh") do
        if not line:match("^#") then
            for name, value in line:gmatch("([%u_]+)=(%S+)") do
                found[name] = value
            end
        end
    end
    return found
end

function slurm_job_submit(job, partitions, uid)
    local environment = job.environment
    if environment and environment["SLURM_GET_USER_ENV"] == "1" then
        for name, value in pairs(login_environment(uid ~= 0 and job.user_name or nil)) do
            if environment[name] == nil then
                environment[name] = value
            end
        end
        environment["SLURM_GET_USER_ENV"] = "0"
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
    return slurm.SUCCESS
end

return slurm.SUCCESS
