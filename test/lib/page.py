#!/usr/bin/env python3
"""page.py FILE: is the page of `jobrun report` as it should be? Prints what is wrong, a line each; nothing if nothing is.

Well-formed, without scripts and without anything from elsewhere, with what screen readers need; and the contrast of all colours, light
and dark, by the formula of WCAG: 4.5 for text, 3 for marks."""
import html.parser
import re
import sys

VOID = {"meta", "br", "link", "img", "input", "hr", "path", "circle"}
ALLOWED = {"html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section", "h1", "h2", "h3", "p", "span", "b", "i",
    "bdi", "strong", "small", "code", "time", "ul", "ol", "li", "dl", "dt", "dd", "div", "figure", "figcaption", "svg", "path", "circle",
    "table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary"}
TEXTS = ["ink", "muted", "good", "warn", "bad"]
MARKS = ["ok", "dead", "retrying", "running", "waiting", "good", "warn", "bad"]
GROUNDS = {"good": ["paper", "goodbg"], "warn": ["paper", "warnbg"], "bad": ["paper", "badbg"],
    "ink": ["paper", "panel", "goodbg", "warnbg", "badbg"], "muted": ["paper", "panel", "goodbg", "warnbg", "badbg"]}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.wrong, self.ids, self.labels, self.headings = [], [], [], [], []
        self.text = {}
        self.svg_without_text = 0

    def handle_starttag(self, tag, attributes):
        names = dict(attributes)
        if tag not in ALLOWED:
            self.wrong.append(f"there is a tag {tag}")
        if len(names) != len(attributes):
            self.wrong.append(f"{tag} has an attribute twice")
        for name, value in attributes:
            if name.startswith("on") or name in ("href", "src", "action", "srcset", "xlink:href"):
                self.wrong.append(f"{tag} has {name}")
            if name == "style" and not re.fullmatch(r"((left|right|top|width):-?[0-9.]+%?;?)+", value):
                self.wrong.append(f"{tag} has the style {value}")
        if "id" in names:
            self.ids.append(names["id"])
        if "aria-labelledby" in names:
            self.labels.append(names["aria-labelledby"])
        if tag == "html" and names.get("lang") != "en":
            self.wrong.append("html has no lang")
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "th" and "scope" not in names:
            self.wrong.append("a th has no scope")
        if "title" in self.open:
            self.wrong.append(f"there is a {tag} in a title")
        if tag == "svg" and names.get("role") != "img" and names.get("aria-hidden") != "true":
            self.wrong.append("an svg is neither an image nor hidden")
        if tag == "svg" and names.get("role") == "img":
            self.svg_without_text += 1
        if tag == "title" and "svg" in self.open:
            self.svg_without_text -= 1
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.wrong.append(f"</{tag}> does not end {self.open[-1:]}")
        else:
            self.open.pop()

    def handle_data(self, data):
        if self.open:
            self.text[self.open[-1]] = self.text.get(self.open[-1], "") + data

    def check(self):
        wrong = self.wrong + [f"{tag} has no end" for tag in self.open]
        if not self.text.get("title", "").strip():
            wrong.append("there is no title")
        if self.headings[:1] != [1] or self.headings.count(1) != 1:
            wrong.append("there is not exactly one h1, at first")
        wrong += [f"h{b} follows h{a}" for a, b in zip(self.headings, self.headings[1:]) if b > a + 1]
        wrong += [f"id {i} is there twice" for i in set(self.ids) if self.ids.count(i) > 1]
        wrong += [f"nothing has the id {i}" for i in self.labels if i not in self.ids]
        if self.svg_without_text:
            wrong.append(f"{self.svg_without_text} svg have no text")
        return wrong


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a, b):
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def colours(css):
    """The variables of each :root, the light one first; what the dark one does not name is as in the light one."""
    roots = [dict(re.findall(r"--([a-z]+):\s*(#[0-9a-f]{6})", root)) for root in re.findall(r":root\s*{([^}]*)}", css)]
    if len(roots) != 2 or set(roots[0]) != set(roots[1]):
        return None
    return {"light": roots[0], "dark": roots[1]}


def check_contrast(css):
    schemes = colours(css)
    if schemes is None:
        yield "light and dark do not have the same colours"
        return
    for scheme, colour in schemes.items():
        wanted = [(text, ground, 4.5) for text in TEXTS for ground in GROUNDS[text]] + [(mark, "paper", 3) for mark in MARKS]
        for a, b, least in wanted:
            ratio = contrast(colour[a], colour[b])
            if ratio < least:
                yield f"{scheme}: {a} on {b} has a contrast of {ratio:.2f}, not {least}"
    rest = re.sub(r":root\s*{[^}]*}", "", css)
    for found in re.findall(r"#[0-9a-fA-F]{3,8}\b|rgba?\(|hsla?\(", rest):
        yield f"the colour {found} is no variable"


def check_source(source):
    if not source.startswith('<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" '
            "content=\"default-src 'none'; style-src 'unsafe-inline'\">"):
        yield "it does not begin with the policy"
    for word in ("://", "<script", "url(", "@import", "javascript:"):
        if word in re.sub(r"<bdi>.*?</bdi>", "", source).lower():
            yield f"there is {word}"
    for c in sorted(set(source)):
        if (ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 or ord(c) in (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)):
            yield f"there is U+{ord(c):04X}"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        source = file.read()
    page = Page()
    page.feed(source)
    page.close()
    css = source[source.index("<style>"):source.index("</style>")]
    for line in [*check_source(source), *page.check(), *check_contrast(css)]:
        print(line)


main()
