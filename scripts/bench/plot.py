"""Line plots as SVG, several in one file, one below the other."""

import html
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 260, 90, 190, 34, 40
COLOURS = ["#1f5fa8", "#b03a2e", "#2a7f3f", "#8a5a00", "#6b3fa0", "#444"]


def steps(highest):
    """About five round numbers from 0 to the highest or a bit more."""
    if highest <= 0:
        return [0, 1]
    size = 10 ** math.floor(math.log10(highest / 5))
    size *= next(f for f in (1, 2, 5, 10) if f * size * 5 >= highest)
    return [i * size for i in range(math.ceil(highest / size - 1e-9) + 1)]


def short(value):
    for unit, one in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= one:
            return "%g%s" % (round(value / one, 2), unit)
    return "%g" % round(value, 3)


def panel(top, title, x_title, lines):
    """lines: {name: [(x, y), ...]}. Both axes begin at 0."""
    xs = steps(max(x for points in lines.values() for x, _ in points))
    ys = steps(max(y for points in lines.values() for _, y in points))
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(x, y):
        return LEFT + x / xs[-1] * wide, top + TOP + high - y / ys[-1] * high

    parts = ['<text x="%d" y="%d" font-size="15">%s</text>' % (LEFT, top + 20, html.escape(title))]
    for y in ys:
        left, at = place(0, y)
        parts.append('<path d="M%d %.1fh%d" stroke="#ddd"/>' % (left, at, wide))
        parts.append('<text x="%d" y="%.1f" text-anchor="end">%s</text>' % (left - 6, at + 4, short(y)))
    for x in xs:
        at, bottom = place(x, 0)
        parts.append('<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>' % (at, bottom + 16, short(x)))
    parts.append('<text x="%.1f" y="%d" text-anchor="middle">%s</text>' % (LEFT + wide / 2, top + HEIGHT - 6, html.escape(x_title)))
    for i, (name, points) in enumerate(lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join("%.1f,%.1f" % place(*p) for p in points)
        parts.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>' % (path, colour))
        label = '<text x="%d" y="%d" fill="%s">%s</text>'
        parts.append(label % (WIDTH - RIGHT + 12, top + TOP + 14 + 18 * i, colour, html.escape(name)))
    return parts


def plot(panels):
    """panels: [(title, x_title, lines), ...]"""
    height = HEIGHT * len(panels)
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">' % (WIDTH, height)]
    parts.append('<rect width="100%" height="100%" fill="#fff"/>')
    for i, (title, x_title, lines) in enumerate(panels):
        parts += panel(HEIGHT * i, title, x_title, lines)
    return "\n".join([*parts, "</svg>"]) + "\n"
