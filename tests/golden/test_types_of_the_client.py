"""The client's types: committed as they are made of the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from datamodel_code_generator import InputFileType, LiteralType, PythonVersion, generate
from datamodel_code_generator.enums import DataModelType
from datamodel_code_generator.format import Formatter

from proxyd.api import wire

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "proxyd" / "client" / "client.py"
DOCUMENT = ROOT / "docs" / "openapi.json"
HEAD = '"""What the REST API answers, made of docs/openapi.json by tests/golden/test_types_of_the_client.py."""\n'
LIST = re.compile(r"class (?:Items|Page)\w+\(TypedDict\):\n    items: list")
"""Envelopes of lists, which the client opens."""
NAME = re.compile(r"(?:class )?(\w+)")


def made() -> str:
    """Return the types of the document as a module."""
    types = generate(
        DOCUMENT,
        input_file_type=InputFileType.OpenAPI,
        output_model_type=DataModelType.TypingTypedDict,
        target_python_version=PythonVersion.PY_311,
        custom_file_header=HEAD,
        enum_field_as_literal=LiteralType.All,
        use_schema_description=True,
        use_single_line_docstring=True,
        use_closed_typed_dict=False,
        use_tuple_for_closed_arrays=True,
        formatters=[Formatter.RUFF_FORMAT],
        settings_path=ROOT,
    )
    head, *parts = (each.rstrip() for each in f"{types}".split("\n\n\n") if not LIST.match(each))
    known = {NAME.match(part)[1]: part for part in parts}  # type: ignore[index]
    told, derived = told_to_callers(known), {name: base_of(name, known) for name in known}
    order = dict.fromkeys(each for name in known if name in told for each in (derived[name], name) if each is not None)
    return (
        "\n\n\n".join(
            [head.replace(", TypeAlias", ""), *(without_members_of(derived[name], name, known) for name in order)]
        )
        + "\n"
    )


def told_to_callers(known: Mapping[str, str]) -> set[str]:
    """Return the types that the client's methods name, and those that these hold: it writes the bodies of requests."""
    found, new = set[str](), set(re.findall(r"types\.(\w+)", CLIENT.read_text()))
    while new:
        found |= new
        new = {each for name in new for each in re.findall(r"\w+", known[name]) if each in known} - found
    return found


def base_of(name: str, known: Mapping[str, str]) -> str | None:
    """Return the type of the model from which that of a type is derived."""
    models = getattr(wire, name, object).__mro__[1:]
    return next((each.__name__ for each in models if each.__name__ in known), None)


def without_members_of(base: str | None, name: str, known: Mapping[str, str]) -> str:
    """Return a type that has the members of another one from that."""
    if base is None:
        return known[name]
    theirs = {line for line in known[base].splitlines()[1:] if line.strip()}
    own = (line for line in known[name].splitlines() if line not in theirs)
    return "\n".join(own).replace("(TypedDict)", f"({base})", 1)


def test_they_are_committed_as_they_are_made(golden: Callable[[Path, str], None]) -> None:
    golden(ROOT / "proxyd" / "client" / "types.py", made())
