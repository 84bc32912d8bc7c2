"""The run as JUnit XML, which every CI system can show.

JUnit knows no warnings. A stricter check that failed is a `failure` only when it fails the run
(`--strict`); otherwise it is `skipped`, with the reason in the message and the details as output,
so that a CI system and the exit code agree.
"""

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
        cases = [_case(result, is_failure=run.counts_as_failure(result)) for result in results]
        suite = ET.SubElement(
            root,
            "testsuite",
            name=group,
            tests=str(len(cases)),
            failures=str(sum(case.find("failure") is not None for case in cases)),
            skipped=str(sum(case.find("skipped") is not None for case in cases)),
            errors="0",
            time=f"{sum(result.elapsed_s for result in results):.3f}",
            timestamp=run.started_at,
        )
        suite.extend(cases)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(result: Result[Check], *, is_failure: bool) -> ET.Element:
    notes = result.check.notes
    name = result.check.id.partition("/")[2]
    case = ET.Element("testcase", classname=result.check.group, name=name, time=f"{result.elapsed_s:.3f}")
    properties = ET.SubElement(case, "properties")
    for number in notes.rules:
        ET.SubElement(properties, "property", name="rule", value=number)
    if notes.stricter:
        ET.SubElement(properties, "property", name="stricter", value=_clean(notes.stricter))
    if result.tries > 1:
        ET.SubElement(properties, "property", name="tries", value=str(result.tries))
    details = _clean(f"{result.message}\n\n{result.exchange}")
    if is_failure:
        failure = ET.SubElement(case, "failure", message=_clean(result.message.partition("\n")[0]))
        failure.text = details
    elif result.outcome == "failed":
        why = f"failed, but is stricter than the protocol's text: {notes.stricter}"
        ET.SubElement(case, "skipped", message=_clean(why))
        ET.SubElement(case, "system-out").text = details
    elif result.outcome == "skipped":
        ET.SubElement(case, "skipped", message=_clean(result.message))
    elif result.was_retried:
        ET.SubElement(case, "system-out").text = _clean(result.message)
    return case


def _clean(text: str) -> str:
    """Text without the characters that XML cannot hold at all."""
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
