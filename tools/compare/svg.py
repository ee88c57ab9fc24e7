# SPDX-License-Identifier: BSD-3-Clause
"""Line charts as SVG, with only Python's library: logarithmic axes, error bars, a legend."""
import collections
import html
import math

Line = collections.namedtuple('Line', 'name points')  # points: (x, y) or (x, y, low, high)

WIDTH, HEIGHT = 860, 480
LEFT, RIGHT, TOP, BOTTOM = 80, 230, 46, 58
COLOURS = ('#0b5fa5', '#d1495b', '#2e8b57', '#e08e0b', '#7b4ea3', '#5a5a5a', '#00a3a3', '#a0522d',
           '#c71585')


class Axis:
    """Maps values to pixels by their logarithms."""

    def __init__(self, values, start, end, base):
        low, high = math.log(min(values), base), math.log(max(values), base)
        self.base, self.start, self.end = base, start, end
        pad = max((high - low) * 0.04, 0.1)
        self.low, self.high = low - pad, high + pad

    def __call__(self, value):
        part = (math.log(value, self.base) - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * min(1.0, max(0.0, part))

    def ticks(self, most):
        first, last = math.ceil(self.low), math.floor(self.high)
        step = max(1, math.ceil((last - first + 1) / most))
        return [self.base ** e for e in range(first, last + 1, step)]


def size_label(value):
    for shift, unit in ((30, 'G'), (20, 'M'), (10, 'K')):
        if value >= 1 << shift:
            return f'{value / (1 << shift):g}{unit}'
    return f'{value:g}'


def text(x, y, words, anchor='middle', more=''):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>'
            f'{html.escape(words)}</text>')


def grid(x, y, labels):
    out = []
    for value in x.ticks(12):
        at = x(value)
        out += [f'<path d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>',
                text(at, HEIGHT - BOTTOM + 18, size_label(value))]
    for value in y.ticks(10):
        at = y(value)
        out += [f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>',
                text(LEFT - 6, at + 4, f'{value:g}', 'end')]
    xlabel, ylabel = labels
    middle = (TOP + HEIGHT - BOTTOM) / 2
    return out + [text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, xlabel),
                  text(20, middle, ylabel, more=f' transform="rotate(-90 20 {middle:.1f})"'),
                  f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH - RIGHT - LEFT}" '
                  f'height="{HEIGHT - BOTTOM - TOP}" fill="none" stroke="#888"/>']


def curve(line, x, y, colour):
    spots = [(x(p[0]), y(p[1])) for p in line.points]
    path = 'M' + 'L'.join(f'{a:.1f} {b:.1f}' for a, b in spots)
    out = [f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>']
    for point, (a, b) in zip(line.points, spots):
        out.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>')
        if len(point) == 4:
            out.append(f'<path d="M{a:.1f} {y(point[2]):.1f}V{y(point[3]):.1f}" '
                       f'stroke="{colour}"/>')
    return out


def chart(path, title, labels, lines, mark=None):
    """Writes a chart; returns False if there is nothing to draw. labels: of x and y; mark: a
    horizontal line at this y. Only values above 0 can be drawn."""
    lines = [Line(line.name, [p for p in line.points if min(p) > 0 and max(p) < math.inf])
             for line in lines]
    lines = [line for line in lines if line.points]
    if not lines:
        return False
    values = [v for line in lines for p in line.points for v in p[1:]] + ([mark] if mark else [])
    x = Axis([p[0] for line in lines for p in line.points], LEFT, WIDTH - RIGHT, 2)
    y = Axis(values, HEIGHT - BOTTOM, TOP, 2 if max(values) / min(values) < 64 else 10)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
           f'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" '
           'fill="white"/>', text(LEFT, 28, title, 'start', ' font-size="15"'),
           *grid(x, y, labels)]
    if mark:
        out.append(f'<path d="M{LEFT} {y(mark):.1f}H{WIDTH - RIGHT}" stroke="black" '
                   f'stroke-dasharray="5 4"/>')
    for i, line in enumerate(lines):
        colour = COLOURS[i % len(COLOURS)]
        out += curve(line, x, y, colour)
        at = TOP + 12 + 20 * i
        out += [f'<path d="M{WIDTH - RIGHT + 12} {at}h22" stroke="{colour}" stroke-width="2"/>',
                text(WIDTH - RIGHT + 40, at + 4, line.name, 'start')]
    with open(path, 'w', encoding='utf-8') as file:
        file.write('\n'.join([*out, '</svg>', '']))
    return True
