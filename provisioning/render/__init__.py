"""Pure renderers: one file a function, ``Lab -> str``."""

from __future__ import annotations

from collections.abc import Callable

from provisioning.lab import Lab
from provisioning.render.compose import compose_yaml
from provisioning.render.gres_conf import gres_conf
from provisioning.render.slurm_conf import cgroup_conf, slurm_conf
from provisioning.render.slurmdbd_conf import slurmdbd_conf
from provisioning.render.users import group, passwd, shadow, users_list

#: Every rendered file by its path below compose/generated/PROJECT/.
RENDERERS: dict[str, Callable[[Lab], str]] = {
    "etc/slurm/slurm.conf": slurm_conf,
    "etc/slurm/gres.conf": gres_conf,
    "etc/slurm/cgroup.conf": cgroup_conf,
    "etc/slurm/slurmdbd.conf": slurmdbd_conf,
    "etc/extrausers/passwd": passwd,
    "etc/extrausers/group": group,
    "etc/extrausers/shadow": shadow,
    "etc/users.list": users_list,
    "compose.yaml": compose_yaml,
}


def render(lab: Lab) -> dict[str, str]:
    """All files of a lab: path -> text. The same lab always gives the same texts."""
    return {path: renderer(lab) for path, renderer in RENDERERS.items()}
