"""The run as JUnit XML, which every CI system can show."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from millstream_conformance.results import Result, Run
from millstream_conformance.rules import Check

_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(run: Run[Check]) -> str:
    """One test suite per group, one test case per check."""
    root = ET.Element("testsuites", name="durable streams conformance", time=f"{run.elapsed_s:.3f}")
    for group, results in run.by_group().items():
        suite = ET.SubElement(
            root,
            "testsuite",
            name=group,
            tests=str(len(results)),
            failures=str(sum(result.outcome == "failed" for result in results)),
            skipped=str(sum(result.outcome == "skipped" for result in results)),
            errors="0",
            time=f"{sum(result.elapsed_s for result in results):.3f}",
            timestamp=run.started_at,
        )
        for result in results:
            suite.append(_case(result))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(result: Result[Check]) -> ET.Element:
    name = result.check.id.partition("/")[2]
    case = ET.Element("testcase", classname=result.check.group, name=name, time=f"{result.elapsed_s:.3f}")
    properties = ET.SubElement(case, "properties")
    for number in result.check.notes.rules:
        ET.SubElement(properties, "property", name="rule", value=number)
    if result.outcome == "failed":
        failure = ET.SubElement(case, "failure", message=_clean(result.message.partition("\n")[0]))
        failure.text = _clean(f"{result.message}\n\n{result.exchange}")
    if result.outcome == "skipped":
        ET.SubElement(case, "skipped", message=_clean(result.message))
    return case


def _clean(text: str) -> str:
    """Text without the characters that XML cannot hold at all."""
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
