#!/usr/bin/env python3
"""The text format of Prometheus, strictly.

exposition.py FILE        each rule of the format, and what node_exporter and promtool want; prints what is wrong
exposition.py OLD NEW     the same for NEW, and no counter in both files is lower in NEW
"""
import re
import sys

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
VALUE = re.compile(r"-?[0-9]+(\.[0-9]+)?|\+Inf|NaN")
TYPES = ("counter", "gauge", "histogram")


class Wrong(Exception):
    pass


def read_sample(line):
    """The name, the labels in their order, and the value."""
    name = NAME.match(line)
    if not name:
        raise Wrong("no name")
    rest, labels = line[name.end():], []
    if rest.startswith("{"):
        rest = rest[1:]
        while not rest.startswith("}"):
            label = LABEL.match(rest)
            if not label:
                raise Wrong("a bad label")
            labels.append((label[1], label[2]))
            rest = rest[label.end():]
            if rest.startswith(","):
                rest = rest[1:]
                if not LABEL.match(rest):
                    raise Wrong("nothing after a comma")
            elif not rest.startswith("}"):
                raise Wrong("no comma between labels")
        rest = rest[1:]
    if len({key for key, _ in labels}) != len(labels):
        raise Wrong("a label twice")
    if not rest.startswith(" ") or not VALUE.fullmatch(rest[1:]):
        raise Wrong("no space and one number at the end")
    return name[0], tuple(labels), float(rest[1:])


def check_histogram(name, samples):
    series = {}
    for (sample, labels), value in samples.items():
        others = tuple(label for label in labels if label[0] != "le")
        found = series.setdefault(others, {"buckets": []})
        if sample == name + "_bucket":
            found["buckets"].append((float(dict(labels)["le"]), value))
        else:
            found[sample[len(name):]] = value
    for labels, found in series.items():
        bounds, counts = [b for b, _ in found["buckets"]], [n for _, n in found["buckets"]]
        if bounds != sorted(set(bounds)) or not bounds or bounds[-1] != float("inf"):
            raise Wrong(f"{name}{labels}: bounds {bounds}")
        if counts != sorted(counts) or counts[-1] != found.get("_count") or "_sum" not in found:
            raise Wrong(f"{name}{labels}: not cumulative, or +Inf is not _count, or no _sum")


def check_family(name, kind, samples):
    suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
    if not samples:
        raise Wrong(f"{name} has no samples")
    for (sample, labels), value in samples.items():
        if sample not in [name + suffix for suffix in suffixes]:
            raise Wrong(f"{sample} is not of {name}")
        if kind != "gauge" and value < 0:
            raise Wrong(f"{sample}{labels} is negative")
    if (kind == "counter") != name.endswith("_total"):
        raise Wrong(f"{name} is a {kind}")
    if kind == "histogram":
        check_histogram(name, samples)


def read(path):
    """All families: name, type, samples. What is wrong raises Wrong."""
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    if not text.endswith("\n") or "\r" in text or "\n\n" in text:
        raise Wrong("lines do not end as they should")
    families, current = {}, None
    for number, line in enumerate(text[:-1].split("\n"), 1):
        try:
            if line.startswith("# HELP "):
                name, _, words = line[7:].partition(" ")
                if name in families or not NAME.fullmatch(name) or not words or "\\" in words:
                    raise Wrong("a HELP twice, or without words")
                current = families[name] = {"type": None, "samples": {}}
            elif line.startswith("# TYPE "):
                name, _, kind = line[7:].partition(" ")
                if current is None or families.get(name) is not current or current["type"] or kind not in TYPES or current["samples"]:
                    raise Wrong("a TYPE that does not follow its HELP")
                current["type"] = kind
            else:
                name, labels, value = read_sample(line)
                if current is None or not current["type"]:
                    raise Wrong("a sample without HELP and TYPE")
                if (name, labels) in current["samples"]:
                    raise Wrong("a sample twice")
                current["samples"][name, labels] = value
        except Wrong as wrong:
            raise Wrong(f"line {number}: {wrong}: {line}") from None
    for name, family in families.items():
        check_family(name, family["type"], family["samples"])
    return families


def check_never_falls(old, new):
    for name, family in old.items():
        if family["type"] == "gauge":
            continue
        for (sample, labels), value in family["samples"].items():
            now = new.get(name, {"samples": {}})["samples"].get((sample, labels))
            if now is None or now < value:
                raise Wrong(f"{sample}{dict(labels)} was {value} and is {now}")


def main():
    try:
        new = read(sys.argv[-1])
        if len(sys.argv) == 3:
            check_never_falls(read(sys.argv[1]), new)
    except (Wrong, UnicodeDecodeError) as wrong:
        sys.exit(f"{sys.argv[-1]}: {wrong}")


if __name__ == "__main__":
    main()
