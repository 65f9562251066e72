"""What mkdocs does for the site besides Markdown: links to files of the project, and pages made from the code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"(?<=\]\()([^)#\s]+)(#[^)\s]*)?(?=\))")
# What programs may import, by what somebody wants with it.
LIBRARY = {
    "Talk to a daemon": {"proxyd.client": ("SyncClient", "Client", "ProfileRead", "StreamEvent", "ApiError")},
    "Make and read traces": {"proxyd.lab.traces": ("model_trace", "parse_trace", "Trace", "Week", "poisson_events")},
    "Replay policies": {
        "proxyd.core.model.chronon": ("ChrononGrid", "Epoch"),
        "proxyd.lab.replay.replay": ("Terms", "ReplayPolicy", "split", "replay", "measures_of_probes"),
        "proxyd.lab.replay.policy_registry": ("run", "PolicyRow"),
    },
    "Plan the probes of one source": {
        "proxyd.core.model.intensity": ("PiecewiseConstant",),
        "proxyd.core.planning.kernels.costs": ("Prefix",),
        "proxyd.core.planning.kernels.one_source": ("Grid", "optimal", "optimal_cycle", "OneSourceSchedule"),
    },
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the decisions in the order of their own index."""
    index = (ROOT / "docs/decisions/README.md").read_text(encoding="utf-8")
    records = ["decisions/README.md", *(f"decisions/{name}" for name in re.findall(r"\]\((\w[\w-]*\.md)\)", index))]
    for part in config.nav or ():
        for pages in part.values() if isinstance(part, dict) else ():
            for page in pages:
                if isinstance(page, dict) and page.get("Decisions") == "DECISIONS":
                    page["Decisions"] = records
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made from the code."""
    document = json.loads((ROOT / "docs/openapi.json").read_text(encoding="utf-8"))
    files.append(File.generated(config, "rest.md", content=rest_page(document)))
    files.append(File.generated(config, "library.md", content=library_page()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files outside the documents lead to the repository."""
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def to_repository(link: re.Match[str]) -> str:
        path = (folder / link[1]).resolve()
        is_outside = "://" not in link[1] and path.exists() and not path.is_relative_to(ROOT / "docs")
        if not is_outside:
            return link[0]
        kind = "tree" if path.is_dir() else "blob"
        return f"{config.extra['repository']}/{kind}/main/{path.relative_to(ROOT).as_posix()}{link[2] or ''}"

    return _LINK.sub(to_repository, markdown)


# -- the page on REST


def rest_page(document: dict[str, Any]) -> str:
    """Return a page of the operations of an OpenAPI document, by what they are about, and of what they carry."""
    lines = ["# REST reference", "", "Made from [`openapi.json`](openapi.json). [How to call it](api.md).", ""]
    by_subject: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        parts = [part for part in path.split("/") if part not in ("", "api", "v1")]
        for method, operation in methods.items():
            by_subject.setdefault(parts[0].strip("{}"), []).extend(_operation(document, path, method, operation))
    for subject, operations in by_subject.items():
        lines += [f"## {subject}", "", *operations]
    lines += ["## Bodies", ""]
    for name, schema in document["components"]["schemas"].items():
        lines += [f"### {name}", "", *_fields(schema), ""]
    return "\n".join(lines)


def _operation(document: dict[str, Any], path: str, method: str, operation: dict[str, Any]) -> list[str]:
    lines = [f"### `{method.upper()} {path}`", ""]
    lines += [text + "\n" for key in ("summary", "description") if (text := operation.get(key))]
    parameters = [_resolved(document, each) for each in operation.get("parameters", ())]
    if parameters:
        lines += ["| argument | in | |", "|---|---|---|"]
        lines += [f"| `{each['name']}` | {each['in']} | {_cell(each.get('description', ''))} |" for each in parameters]
        lines.append("")
    if body := _resolved(document, operation.get("requestBody", {})).get("content"):
        lines += [f"Body: {_kinds(body)}", ""]
    for status, answer in operation.get("responses", {}).items():
        found = _resolved(document, answer)
        shown = _kinds(found.get("content", {}))
        lines.append(f"* **{status}** {_cell(found.get('description', ''))}{': ' + shown if shown else ''}")
    return [*lines, ""]


def _kinds(content: dict[str, Any]) -> str:
    """Return the media types of a body, with what they carry."""
    return ", ".join(f"`{kind}` {_type(body.get('schema', {}))}".strip() for kind, body in content.items())


def _fields(schema: dict[str, Any]) -> list[str]:
    described = [_cell(schema["description"]), ""] if "description" in schema else []
    fields = schema.get("properties", {})
    if not fields:
        return [*described, _type(schema)]
    rows = [f"| `{name}` | {_type(each)} | {_cell(each.get('description', ''))} |" for name, each in fields.items()]
    return [*described, "| field | | |", "|---|---|---|", *rows]


def _type(schema: dict[str, Any]) -> str:
    """Return the type of a schema in words, with links to those that have a name."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema or "oneOf" in schema:
        return " or ".join(dict.fromkeys(_type(each) for each in schema.get("anyOf") or schema["oneOf"]))
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type", "")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}".rstrip()
    return kind if isinstance(kind, str) else " or ".join(kind)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _resolved(document: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in part:
        found: Any = document
        for name in part["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        part = found
    return part


def library_page() -> str:
    """Return the page of what programs may import."""
    lines = ["# Library reference", "", "[An example](algorithms.md#as-a-library). Names that are not here may change."]
    for title, modules in LIBRARY.items():
        lines += ["", f"## {title}"]
        lines += [f"\n::: {module}.{name}\n" for module, names in modules.items() for name in names]
    return "\n".join(lines)
