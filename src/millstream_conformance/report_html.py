"""The run as one self-contained HTML page.

`report.html` is the template with its style and script; this file fills in the parts. Everything
that came from the implementation under test is escaped: the report must be safe to open even if
that implementation is hostile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from itertools import chain

from millstream_conformance.results import OUTCOMES, Outcome, Result, Run
from millstream_conformance.rules import Check, Rule


def render(run: Run[Check]) -> str:
    """The finished page."""
    page = files("millstream_conformance").joinpath("report.html").read_text(encoding="utf-8")
    parts = {
        "title": escape(f"{'conforms' if run.conforms else 'does not conform'}: {run.subject}"),
        "verdict": _verdict(run),
        "verdict_class": "ok" if run.ok else "no",
        "suite": run.suite,
        "subject": escape(run.subject),
        "when": escape(run.started_at.replace("T", " ").replace("+00:00", " UTC")),
        "elapsed": f"{run.elapsed_s:.1f} s, {run.answers_seen:,} answers",
        "bar": _bar(run),
        "counts": _counts(run),
        "missing_parts": _missing_parts(run),
        "groups": "".join(_group(name, results) for name, results in run.by_group().items()),
        "checks": "".join(_check(result, run) for result in _failures_first(run)),
        "rules": "".join(_rule(rule, run) for rule in run.rules.values()),
        "show_rest": "false" if run.failures else "true",
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda slot: parts[slot[1]], page)


def _verdict(run: Run[Check]) -> str:
    if not run.count("passed") + run.count("failed"):
        return "Nothing was checked."
    required, stricter = (run.count("failed", stricter=kind) for kind in (False, True))
    verdict = f"{_failing(required, 'check')}." if required else f"This {run.suite} conforms."
    asides = [_failing(stricter, "stricter check")] if stricter else []
    if run.conforms and not run.ok:
        asides.append("the run failed because it was strict")
    if run.retried:
        asides.append(f"{len(run.retried)} passed only after a further try")
    return verdict + "".join(f"<small>{aside}</small>" for aside in asides)


def _failing(number: int, what: str) -> str:
    return f"{number} {what} fails" if number == 1 else f"{number} {what}s fail"


def _failures_first(run: Run[Check]) -> Iterable[Result[Check]]:
    rest = [result for result in run.results if result.outcome != "failed"]
    return chain(run.failures, rest)


def _bar(run: Run[Check]) -> str:
    total = len(run.results) or 1
    shares = [(outcome, 100 * run.count(outcome) / total) for outcome in ("passed", "failed", "skipped")]
    return "".join(f'<span class="{outcome}" style="width:{share:.2f}%"></span>' for outcome, share in shares)


def _counts(run: Run[Check]) -> str:
    stricter = run.count("failed", stricter=True)
    asides = {
        "failed": f" ({stricter} stricter)" if stricter else "",
        "passed": f" ({len(run.retried)} after a further try)" if run.retried else "",
    }
    return "".join(_count(run, outcome, asides.get(outcome, "")) for outcome in OUTCOMES)


def _count(run: Run[Check], outcome: Outcome, aside: str) -> str:
    return f'<span><i class="dot {outcome}"></i><b>{run.count(outcome)}</b> {outcome}{aside}</span>'


def _missing_parts(run: Run[Check]) -> str:
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in run.missing_parts())
    if not items:
        return ""
    return f'<div class="note">Optional parts that this {run.suite} does not offer:<ul>{items}</ul></div>'


def _group(name: str, results: list[Result[Check]]) -> str:
    passed = sum(result.outcome == "passed" for result in results)
    cells = "".join(_cell(result) for result in results)
    title = f'<a href="#group-{escape(name)}">{escape(name.replace("_", " "))}</a>'
    return (
        f'<div class="group"><h3>{title}<small>{passed}/{len(results)}</small></h3>'
        f'<div class="cells">{cells}</div></div>'
    )


def _cell(result: Result[Check]) -> str:
    name = escape(result.check.id, quote=True)
    return f'<a class="cell {result.outcome}" title="{name}" href="#{name}"></a>'


def _check(result: Result[Check], run: Run[Check]) -> str:
    notes, outcome = result.check.notes, result.outcome
    chips = "".join(f'<a class="chip" href="#rule-{number}">{number}</a>' for number in notes.rules)
    marks = '<span class="chip stricter">stricter</span>' if notes.stricter else ""
    if result.tries > 1:
        marks += f'<span class="chip stricter">{result.tries} tries</span>'
    state = " open" if outcome == "failed" else " hidden"
    name = escape(result.check.id, quote=True)
    return (
        f'<details class="check {outcome}" data-kind="{outcome}" id="{name}"{state}>'
        f'<summary><span class="what">{escape(result.check.title)}</span>{marks}{chips}'
        f"<time>{result.elapsed_s * 1000:,.0f} ms</time></summary>{_inside(result, run)}</details>"
    )


def _inside(result: Result[Check], run: Run[Check]) -> str:
    notes = result.check.notes
    texts = [f'<p class="id">{escape(result.check.id)}</p>']
    texts += [f"<p>{escape(number)}: {escape(run.rules[number].text)}</p>" for number in notes.rules]
    if notes.stricter:
        texts.append(f"<p>Stricter than the protocol's text: {escape(notes.stricter)}.</p>")
    if notes.cases:
        texts.append(f"<p>Also known as <code>{escape(', '.join(notes.cases))}</code></p>")
    if result.message:
        texts.append(f'<pre class="why">{escape(result.message)}</pre>')
    if result.exchange:
        texts.append(f'<pre class="exchange">{_exchange(result.exchange)}</pre>')
    return f'<div class="inside">{"".join(texts)}</div>'


def _exchange(text: str) -> str:
    classes = {">": "sent", "<": "got"}
    lines = [(classes.get(line.lstrip()[:1], "aside"), line) for line in text.split("\n")]
    return "\n".join(f'<span class="{kind}">{escape(line)}</span>' for kind, line in lines)


def _rule(rule: Rule, run: Run[Check]) -> str:
    number = rule.number
    results = [result for result in run.results if number in result.check.notes.rules]
    counted = {outcome: sum(result.outcome == outcome for result in results) for outcome in OUTCOMES}
    worst = next((outcome for outcome in ("failed", "passed", "skipped") if counted[outcome]), "skipped")
    shown = ", ".join(f"{counted[outcome]} {outcome}" for outcome in OUTCOMES if counted[outcome])
    return (
        f'<tr id="rule-{number}"><td><i class="dot {worst}"></i>{number}</td><td>{escape(rule.text)}</td>'
        f'<td class="num">§ {escape(rule.section)}</td><td class="num">{shown or "not run"}</td></tr>'
    )
