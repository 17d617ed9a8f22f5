"""What must be the same in several containers: Slurm's key, Ray's token, the clock, the addresses of names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from provisioning.doctor.finding import Finding
from provisioning.doctor.look import KEY_FILE, TOKEN_FILE, Inside, Look
from provisioning.secretfiles import RAY_TOKEN, SLURM_KEY

#: auth/slurm refuses what seems to be older or newer than its TTL of 60 s; half of that is already no accident.
CLOCK_S = 30.0


def secret_findings(what: str, file: str, seen: Mapping[str, Inside], secret: bytes) -> Iterator[Finding]:
    """Services whose copy of a secret is another one than the lab's."""
    wanted = hashlib.sha256(secret).hexdigest()
    for service, inside in seen.items():
        if (digest := inside.digests.get(file, "")) != wanted:
            state = "is another one than the lab's" if digest else "is missing"
            yield Finding(service, f"its {what} ({file}) {state}: it is refused by the others",
                          "make down, then make up, hands the same out to all; the queue is kept")  # fmt: skip


def slurm_key(look: Look) -> Iterator[Finding]:
    """Slurm's key is the same everywhere."""
    if (secret := look.secret(SLURM_KEY)) is not None:
        yield from secret_findings("Slurm key", KEY_FILE, look.insides(look.slurm_services()), secret)


def ray_token(look: Look) -> Iterator[Finding]:
    """Ray's token is the same everywhere."""
    if (secret := look.secret(RAY_TOKEN)) is not None:
        yield from secret_findings("Ray token", TOKEN_FILE, look.insides(look.ray_services()), secret)


def clock_findings(seen: Mapping[str, Inside]) -> Iterator[Finding]:
    """Clocks that are not this machine's: Slurm refuses messages of the wrong time as forged or too old."""
    for service, inside in seen.items():
        if abs(inside.ahead_s) > CLOCK_S:
            way = "ahead of" if inside.ahead_s > 0 else "behind"
            yield Finding(
                service,
                f"its clock is {abs(inside.ahead_s):.0f} s {way} this machine's",
                "start the engine anew (a virtual machine's clock stops while a laptop sleeps), then make up",
            )


def clock(look: Look) -> Iterator[Finding]:
    """All clocks show the same."""
    yield from clock_findings(look.insides(look.cluster.services()))


def name_findings(seen: Mapping[str, Inside], addresses: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Names that a service cannot look up, or takes for somebody else. ``addresses`` are what the engine says."""
    for service, inside in seen.items():
        unknown = [name for name, address in inside.addresses.items() if not address]
        if unknown:
            yield Finding(service, f"it cannot look up {', '.join(unknown)}",
                          "make down, then make up, makes the network and its names anew")  # fmt: skip
        for name, address in inside.addresses.items():
            # its own name may stand for the loopback address
            if address and name != service and addresses.get(name) and address not in addresses[name]:
                yield Finding(
                    service,
                    f"it takes {name} for {address}, which is {' or '.join(addresses[name])}",
                    f"look at /etc/hosts there (make shell AS=root NODE={service}); make down, then make up",
                )


def addresses_of(inspected: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Addresses of the services on all their networks, by Docker's record."""
    return {service: [one["IPAddress"] for one in row["NetworkSettings"]["Networks"].values() if one["IPAddress"]]
            for service, row in inspected.items()}  # fmt: skip


def names(look: Look) -> Iterator[Finding]:
    """Every service finds the others by name."""
    yield from name_findings(look.insides(look.cluster.services()), addresses_of(look.inspected()))
