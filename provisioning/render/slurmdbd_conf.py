"""slurmdbd.conf, see slurmdbd.conf(5). The password is not in it: the container adds it from its secret."""

from __future__ import annotations

from provisioning.lab import Lab

#: How daemons speak to each other: slurmdbd must say the same as slurm.conf, or it understands nobody.
SPOKEN = ("AuthAltTypes", "AuthInfo", "HashPlugin", "TLSParameters", "TLSType")


def slurmdbd_conf(lab: Lab) -> str:
    """The whole slurmdbd.conf of a lab, without StoragePass."""
    private = [name for name in lab.slurm.private_data if name in ("accounts", "events", "jobs", "reservations",
                                                                  "usage", "users")]  # fmt: skip
    lines = [
        "AuthType=auth/slurm",
        "DbdHost=slurmdbd",
        "DbdPort=6819",
        "SlurmUser=slurm",
        "PidFile=/run/slurmdbd/slurmdbd.pid",
        "StorageType=accounting_storage/mysql",
        "StorageHost=db",
        "StorageUser=slurm",
        "StorageLoc=slurm_acct_db",
        # records of a day's class are asked for at once; a second is enough to gather commits
        "CommitDelay=1",
    ]
    lines += [f"{name}={lab.slurm.extra[name]}" for name in SPOKEN if name in lab.slurm.extra]
    if private:
        lines.append(f"PrivateData={','.join(private)}")
    return "\n".join(lines) + "\n"
