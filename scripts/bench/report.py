"""What the samples say: medians and ranges, ratios against targets, a table, a plot."""

import html
import math
import statistics

MARKS = {True: "yes", False: "**no**", None: "-"}


def judged(work, samples, quick):
    """A work with its samples and the rows they give, as it is kept in results.json."""
    kinds = {c.who: c.kind for c in work.contenders}
    rows = [row for r in work.rows for row in judge_row(r, samples, kinds, quick)]
    return {"name": work.name, "kinds": kinds, "samples": samples, "rows": rows, "columns": work.columns, "notes": work.notes}


def judge_row(row, samples, kinds, quick):
    """A dictionary for each target."""
    subject = spread(samples[row.who], row.metric)
    common = {"title": row.title, "unit": row.unit, "higher": row.higher, "value": subject}
    for target in row.targets:
        against = spread(samples[target.against], row.metric) if target.against in samples else None
        ratio = ratio_of(row, samples, target) if subject and (against or not target.against) else None
        verdict = verdict_of(row, target, ratio, subject, quick)
        yield dict(common, against=target.against, against_value=against, ratio=ratio, bound=target.bound, met=verdict,
            against_kind=kinds.get(target.against, "peer"))


def spread(samples, metric):
    """None if there is no sample: the contender has failed."""
    values = [s[metric] for s in samples]
    if not values:
        return None
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "n": len(values)}


def ratio_of(row, samples, target):
    """The median of the ratios of each turn: what slows the machine down for a while slows both of a turn. Without a
    contender the bound is a number, and the ratio is to 1."""
    values = [s[row.metric] for s in samples[row.who]]
    if not target.against:
        return statistics.median(values)
    return statistics.median(v / s[row.metric] for v, s in zip(values, samples[target.against]))


def verdict_of(row, target, ratio, subject, quick):
    """A target of 0 is reported only. A contender that has failed has missed its targets."""
    if not target.bound or quick:
        return None
    if ratio is None:
        return None if subject else False
    return ratio >= target.bound if row.higher else ratio <= target.bound


# --- text ---


def number(value):
    if value >= 100:
        return "{:,.0f}".format(value)
    return "%.1f" % value if value >= 10 else "%.2f" % value if value >= 0.1 else "%.4f" % value


def figure(value, unit):
    return "%s%s%s" % (number(value), "" if unit.startswith("/") or not unit else " ", unit)


def ranged(value, unit):
    if value is None:
        return "failed"
    text = figure(value["median"], unit)
    return text if value["n"] == 1 else "%s (%s to %s)" % (text, number(value["min"]), number(value["max"]))


def short(sample):
    if "rate" in sample:
        return figure(sample["rate"], "/s")
    return ", ".join("%s %s" % (k, number(v)) for k, v in sample.items() if isinstance(v, (int, float)))


def bound_text(row):
    if not row["bound"]:
        return "reported"
    sign = "&ge;" if row["higher"] else "&le;"
    if not row["against"]:
        return "%s %s" % (sign, figure(row["bound"], row["unit"]))
    return "%s %.2f &times;" % (sign, row["bound"])


def ratio_text(row):
    """With a third digit where two would look like a target that is met."""
    text = "%.2f" % row["ratio"]
    return "%.3f" % row["ratio"] if row["met"] is False and float(text) == row["bound"] else text


def line(row, repeated):
    """A line of the table. Title and value stand once for all targets of a row."""
    cells = ["", ""] if repeated else [row["title"], ranged(row["value"], row["unit"])]
    if not row["against"]:
        beside, ratio = "", ""
    elif row["against_value"] is None:
        beside, ratio = "%s: not measured" % row["against"], ""
    else:
        beside = "%s: %s" % (row["against"], ranged(row["against_value"], row["unit"]))
        ratio = ratio_text(row) if row["ratio"] else ""
    return "| " + " | ".join([*cells, beside, ratio, bound_text(row), MARKS[row["met"]]]) + " |"


def columns_table(work):
    """A line for each contender of a work that compares nothing."""
    lines = ["", "| a run of kind | " + " | ".join(work["columns"]) + " |", "|---" * (len(work["columns"]) + 1) + "|"]
    for who, samples in work["samples"].items():
        cells = [ranged(spread(samples, metric), unit) for metric, unit in work["columns"].values()]
        lines.append("| " + " | ".join([who, *cells]) + " |")
    return lines


def machine(facts):
    parts = [
        "%d cores (%s)" % (facts["cores"], facts["processor"]),
        "Linux " + facts["kernel"],
        "PostgreSQL " + facts["postgresql"],
        "huge pages" if facts["huge_pages"] else "no huge pages",
        "fdatasync %d us" % facts["fdatasync_us"],
        *("%s %s" % item for item in facts["peers"].items()),
        facts["jobrun"],
    ]
    return "%s: %s, %s." % (facts["date"], ", ".join(parts), facts["commit"])


def table(result):
    facts = result["facts"]
    lines = ["| work | jobrun | beside it | ratio | target | met |", "|---|---|---|---|---|---|"]
    for work in result["works"]:
        title = None
        for row in work["rows"]:
            lines.append(line(row, row["title"] == title))
            title = row["title"]
    for work in result["works"]:
        lines += columns_table(work) if work["columns"] else []
    lines += ["", machine(facts) + " Medians of %d, with ranges; a ratio is the median of the ratios of each turn." % result["repetitions"], ""]
    lines += ["* " + note for work in result["works"] for note in work["notes"]]
    return "\n".join(lines).rstrip() + "\n"


# --- plot: a bar for each ratio, on a scale where twice as fast and half as fast are as far from 1; a mark at the target ---

WIDTH, LEFT, RIGHT, HEIGHT = 1000, 520, 60, 22
COLOURS = {True: "#2a7f3f", False: "#b03a2e", None: "#6b7280"}


def place(ratio):
    """Where a ratio is between 1/16 and 16."""
    scaled = (math.log2(min(max(ratio, 1 / 16), 16)) + 4) / 8
    return LEFT + scaled * (WIDTH - LEFT - RIGHT)


def bar(row, top):
    # More is better for every bar: where less is better, it is turned round.
    ratio = row["ratio"] if row["higher"] else 1 / row["ratio"]
    bound = row["bound"] and (row["bound"] if row["higher"] else 1 / row["bound"])
    one, end = place(1), place(ratio)
    label = html.escape("%s : %s" % (row["title"].replace("`", ""), row["against"]))
    step, anchor = (4, "start") if end >= one else (-4, "end")
    parts = [
        '<text x="%d" y="%d" text-anchor="end">%s</text>' % (LEFT - 8, top + 15, label),
        '<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>'
        % (min(one, end), top + 3, max(abs(end - one), 1), HEIGHT - 6, COLOURS[row["met"]]),
        '<text x="%.1f" y="%d" text-anchor="%s">%.2f</text>' % (end + step, top + 15, anchor, ratio),
    ]
    if bound:
        parts.append('<path d="M%.1f %dv%d" stroke="#111" stroke-width="2"/>' % (place(bound), top + 1, HEIGHT - 2))
    return parts


def plot(result):
    rows = [r for w in result["works"] for r in w["rows"] if r["against"] and r["ratio"]]
    height = 60 + HEIGHT * len(rows)
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d"' % (WIDTH, height),
        ' font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        '<text x="8" y="20" font-size="15">jobrun : its floors and peers. How many times as good; the black mark is the target</text>',
    ]
    for power in range(-4, 5):
        x = place(2.0**power)
        parts.append('<line x1="%.1f" x2="%.1f" y1="44" y2="%d" stroke="#ddd"/>' % (x, x, height - 8))
        label = "1/%d" % 2**-power if power < 0 else "%d" % 2**power
        parts.append('<text x="%.1f" y="40" text-anchor="middle">%s</text>' % (x, label))
    for i, row in enumerate(rows):
        parts += bar(row, 48 + HEIGHT * i)
    return "\n".join([*parts, "</svg>"]) + "\n"
