"""Unix users of the lab as libnss-extrausers reads them (passwd(5), group(5), shadow(5))."""

from __future__ import annotations

from provisioning.lab import Lab

#: The group of all users of a lab; what they share, such as Ray's token, belongs to it.
GROUP, GID = "labusers", 2000


def passwd(lab: Lab) -> str:
    """One passwd line a user, in order of uid."""
    users = sorted(lab.users, key=lambda user: user.uid)
    return "".join(f"{user.name}:x:{user.uid}:{GID}::/home/{user.name}:/bin/bash\n" for user in users)


def group(_lab: Lab) -> str:
    """The group of all users."""
    return f"{GROUP}:x:{GID}:\n"


def shadow(lab: Lab) -> str:
    """Nobody has a password: users come in through ``make shell``."""
    return "".join(f"{user.name}:*:20000::::::\n" for user in sorted(lab.users, key=lambda user: user.uid))


def users_list(lab: Lab) -> str:
    """What lab-homes reads: name, uid, gid."""
    return "".join(f"{user.name} {user.uid} {GID}\n" for user in sorted(lab.users, key=lambda user: user.uid))
