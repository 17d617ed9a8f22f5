"""``make bundle``: an archive for whoever helps, with what there is to see of a lab, and without its secrets."""

from __future__ import annotations

import io
import platform
import sys
import tarfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from provisioning import versions
from provisioning.bundle import bundle
from provisioning.cluster import Cluster, run_local
from provisioning.errors import LabError
from provisioning.redact import all_secrets, holds, redact
from provisioning.render import RENDERERS
from provisioning.settings import Settings
from provisioning.together import together

#: Lines of each log; with the size at which the engine turns a log over this bounds the archive.
LOG_LINES = 2000


def _versions(cluster: Cluster) -> str:
    """Versions of what runs the lab and of what runs in it."""
    commands = {"engine": ["docker", "version"], "Compose": ["docker", "compose", "version"],
                "checkout": ["git", "-C", str(cluster.settings.root), "describe", "--always", "--dirty"],
                "images": ["docker", "image", "ls", "--filter", "reference=slurm-ray-lab/*"]}  # fmt: skip
    said = [f"Slurm line {cluster.settings.slurm}, Ray {versions.RAY}, Python {sys.version.split()[0]}",
            f"{platform.system()} {platform.release()} {platform.machine()}"]  # fmt: skip
    for name, command in commands.items():
        try:
            done = run_local(command, timeout_s=20)
            said.append(f"---- {name}\n{(done.stdout + done.stderr).strip()}")
        except LabError as error:
            said.append(f"---- {name}\nno answer: {error.what}")
    return "\n".join(said)


def _findings(cluster: Cluster) -> str:
    from provisioning.doctor import examine

    return "\n".join(map(str, examine(cluster))) or "nothing found"


def _configuration(cluster: Cluster) -> dict[str, str]:
    """The lab's YAML and the rendered files, as they lie in the folder; that of the secrets is not looked into."""
    given = cluster.settings.lab
    shipped = Path(__file__).parent / "labs" / f"{given}.yaml"
    paths = {"configuration/lab.yaml": Path(given) if Path(given).is_file() else shipped}
    paths |= {f"configuration/{name}": cluster.settings.generated / name for name in [*RENDERERS, "state.json"]
              if not name.endswith("shadow")}  # fmt: skip
    return {name: path.read_text(encoding="utf-8", errors="replace") for name, path in paths.items() if path.is_file()}


def collect(cluster: Cluster) -> dict[str, str]:
    """All texts by their path in the archive. A part that cannot be had says why, in its place."""
    parts: dict[str, Callable[[], str]] = {
        "bundle.txt": lambda: bundle(cluster),
        "doctor.txt": lambda: _findings(cluster),
        "versions.txt": lambda: _versions(cluster),
    }
    for service in cluster.services():
        parts[f"logs/{service}.log"] = lambda service=service: cluster.log_tail(service, LOG_LINES)  # type: ignore[misc]

    def text(name: str) -> str:
        try:
            return parts[name]().rstrip() + "\n"
        except LabError as error:
            return f"no answer: {error.what}\n"

    found = together(*(partial(text, name) for name in parts), at_most=4)
    return dict(zip(parts, found, strict=True)) | _configuration(cluster)


def pack(texts: dict[str, str], secrets: dict[str, bytes], folder: str) -> bytes:
    """A tar.gz of the texts without the secrets. Raises LabError rather than let one out."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in sorted(texts.items()):
            content = redact(text.encode(), secrets)
            if left := holds(content, secrets):
                raise LabError(f"{name} would have held {', '.join(left)}: nothing was written",
                               "make rotate-secrets, then make bundle")  # fmt: skip
            info = tarfile.TarInfo(f"{folder}/{name}")
            info.size, info.mtime = len(content), int(time.time())
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def bundle_command(settings: Settings, out: str) -> int:
    """Write the archive and say what is in it."""
    cluster = Cluster.open(settings)
    folder = f"{settings.project}-bundle"
    path = Path(out or f"bundles/{settings.project}-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz")
    texts = collect(cluster)
    content = pack(texts, all_secrets(settings.generated), folder)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise LabError(f"{path} cannot be written: {error.strerror}", "make bundle OUT=/tmp/bundle.tar.gz") from error
    print(f"{path}: {len(texts)} files, {len(content) // 1024 + 1} kB: states, logs, configuration, what make doctor "
          "found; no secrets. Read it before you pass it on: logs hold names of users and jobs")  # fmt: skip
    return 0
