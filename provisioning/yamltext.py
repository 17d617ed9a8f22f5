"""YAML without guessing: every scalar stays the text that was written, and everything has its line.

``12:30:00``, ``off``, ``1e3`` and ``08`` are texts here. What makes a file mean more than it shows is refused: repeated
keys, anchors and aliases, tags, several documents. The tree is built from the parser's events, without recursion.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from provisioning.problems import LabInvalid, Problem, shown

MAX_BYTES = 1_000_000
MAX_DEPTH = 12
_TOO_DEEP = (f"lists and maps are nested more than {MAX_DEPTH} deep", "a lab needs 4")
#: libyaml where it is there: it reads a file in a few milliseconds.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass
class Scalar:
    """A text; ``empty`` if nothing at all was written (``key:`` or ``~``), which a quoted '' is not."""

    text: str
    line: int
    empty: bool


@dataclass
class Sequence:
    """A list."""

    line: int
    items: list[Node] = field(default_factory=list)


@dataclass
class Map:
    """A map; keys are texts."""

    line: int
    items: dict[str, Node] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)


Node = Scalar | Sequence | Map


class _Builder:
    """Puts the events together to a tree; notes what is wrong on the way."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.root: Node | None = None
        self.open: list[Sequence | Map] = []
        self.keys: list[str | None] = []

    def complain(self, line: int, problem: str, remedy: str) -> None:
        self.problems.append(Problem(f"{self.file}:{line}", "", problem, remedy))

    def stop(self, line: int, problem: str, remedy: str) -> LabInvalid:
        self.complain(line, problem, remedy)
        return LabInvalid(self.problems)

    def add(self, node: Node) -> None:
        """Hang a node below the innermost open list or map; in a map keys and values take turns."""
        if not self.open:
            self.root = node
        elif isinstance(parent := self.open[-1], Sequence):
            parent.items.append(node)
        elif self.keys[-1] is None:
            if not isinstance(node, Scalar):
                raise self.stop(node.line, "a key must be a text, not a list or a map", "write key: value")
            if node.text in parent.items:
                first = parent.lines[node.text]
                self.complain(node.line, f"the key {shown(node.text)} is there twice, first in line {first}",
                              "keep one of them")  # fmt: skip
            self.keys[-1] = node.text
            parent.lines.setdefault(node.text, node.line)
            parent.items.setdefault(node.text, node)
        else:
            parent.items[self.keys[-1]] = node
            self.keys[-1] = None
        if not isinstance(node, Scalar):
            self.open.append(node)
            self.keys.append(None)

    def event(self, event: Any) -> None:
        line = event.start_mark.line + 1
        if getattr(event, "anchor", None) is not None:
            raise self.stop(line, "anchors and aliases (&name, *name) are not taken", "write the value out")
        if getattr(event, "tag", None) not in (None, "!"):
            raise self.stop(line, "tags (!name) are not taken", "write the plain value")
        if isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
            raise self.stop(line, "the file has several documents", "keep one, without a second ---")
        if isinstance(event, yaml.ScalarEvent):
            plain = event.implicit[0] and not event.style
            self.add(Scalar(event.value, line, plain and event.value in ("", "~", "null")))
        elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
            if len(self.open) >= MAX_DEPTH:
                raise self.stop(line, *_TOO_DEEP)
            self.add(Sequence(line) if isinstance(event, yaml.SequenceStartEvent) else Map(line))
        elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            self.open.pop()
            self.keys.pop()


def _parse_problem(file: str, text: str, error: yaml.YAMLError) -> Problem:
    """The parser's complaint in plain words."""
    mark = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark else 0
    lines = text.splitlines()
    said = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "not valid")
    if "nesting depth" in said:
        return Problem(f"{file}:{line}", "", *_TOO_DEEP)
    remedy = "check the indentation, and quote texts that have : or # or brackets in them"
    if 0 < line <= len(lines) and "\t" in lines[line - 1]:
        remedy = "indent with spaces, not with tabs"
    return Problem(f"{file}:{line}" if line else file, "", f"this is not YAML: {said}", remedy)


def read_text(path: Path, file: str, remedy: str = "name a lab or a .yaml file") -> str:
    """The text of a file. Raises LabInvalid for what cannot be meant: no file, too large, not UTF-8."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise LabInvalid([Problem(file, "", f"cannot be read: {reason}", remedy)]) from None
    if len(data) > MAX_BYTES:
        raise LabInvalid([Problem(file, "", f"has more than {MAX_BYTES:,} bytes", "such a file has a few thousand")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise LabInvalid([Problem(f"{file}:{line}", "", "the text is not UTF-8", "save the file as UTF-8")]) from None


def parse(text: str, file: str, like: str = "provisioning/labs/default.yaml",
          keys: str = "name: ..., nodes: ...") -> tuple[Map, list[Problem]]:  # fmt: skip
    """The tree of a YAML text and the problems that still let it be read. Raises LabInvalid for the others.

    ``like`` is an example of such a file, ``keys`` how one begins.
    """
    builder = _Builder(file)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.event(event)
    except yaml.YAMLError as error:
        raise LabInvalid([*builder.problems, _parse_problem(file, text, error)]) from None
    except UnicodeError:
        raise LabInvalid([Problem(file, "", "the text is not Unicode", "save the file as UTF-8")]) from None
    root = builder.root
    if root is None or (isinstance(root, Scalar) and root.empty):
        raise LabInvalid([Problem(file, "", "the file is empty", f"start from {like}")])
    if not isinstance(root, Map):
        raise builder.stop(
            root.line, "the file is not a map", f"write {keys} as in {like.removeprefix('provisioning/')}"
        )
    return root, builder.problems
