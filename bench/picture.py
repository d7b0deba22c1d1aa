# SPDX-License-Identifier: Apache-2.0
"""One SVG: what was asked and admitted over time, and how much of it fell into one rolling period."""
import collections

WIDTH, LEFT, RIGHT = 760, 44, 12
BARS_TOP, BARS_HEIGHT = 34, 96
ROLL_TOP, ROLL_HEIGHT = 164, 76
HEIGHT = 282
BIN_MS = 500
INK, ASKED, ADMITTED, SENT, LIMIT = '#24292f', '#d0d7de', '#1f6feb', '#e16f24', '#cf222e'

Trace = collections.namedtuple('Trace', 'ms admitted delay_ms')


def rolling(times, period_ms):
    """(time, admitted in the period up to then) at each change."""
    events = sorted([(t, 1) for t in times] + [(t + period_ms, -1) for t in times], key=lambda e: (e[0], e[1]))
    points, level = [], 0
    for at, step in events:
        points.append((at, level))
        level += step
        points.append((at, level))
    return points


class Canvas:
    def __init__(self, title, description, span_ms):
        self.span_ms = span_ms
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            'font-family="sans-serif" font-size="11">', f'<title>{title}</title>', f'<desc>{description}</desc>',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            f'<text x="{LEFT}" y="14" font-size="13" font-weight="bold" fill="{INK}">{title}</text>']

    def x(self, ms):
        return LEFT + (WIDTH - LEFT - RIGHT) * ms / self.span_ms

    def bar(self, ms, width_ms, base, height, colour):
        if height > 0 and ms + width_ms <= self.span_ms:
            left, right = self.x(ms), self.x(ms + width_ms)
            self.parts.append(f'<rect x="{left:.1f}" y="{base - height:.1f}" width="{right - left - 0.6:.1f}" '
                              f'height="{height:.1f}" fill="{colour}"/>')

    def text(self, x, y, text, anchor='start', colour=INK):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{text}</text>')

    def line(self, x1, y1, x2, y2, colour=INK, dash=''):
        dashed = f' stroke-dasharray="{dash}"' if dash else ''
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{dashed}/>')

    def key(self, x, colour, text):
        self.parts.append(f'<rect x="{x}" y="22" width="9" height="9" fill="{colour}"/>')
        self.text(x + 13, 30, text)

    def seconds(self, base, every_s):
        for s in range(0, self.span_ms // 1000 + 1, every_s):
            self.line(self.x(s * 1000), base, self.x(s * 1000), base + 4)
            self.text(self.x(s * 1000), base + 15, f'{s} s', 'middle')

    def scale(self, top, height, most, step):
        base = top + height
        self.line(LEFT, base, WIDTH - RIGHT, base)
        for value in range(0, most + 1, step):
            y = base - height * value / most
            self.line(LEFT - 4, y, LEFT, y)
            self.text(LEFT - 7, y + 4, str(value), 'end')

    def done(self):
        return '\n'.join(self.parts + ['</svg>']) + '\n'


def binned(times):
    return collections.Counter(int(t) // BIN_MS * BIN_MS for t in times)


def draw(title, traces, limit, period_ms, span_ms, bars_most, rolling_most):
    """`traces` in order of time; what is delayed is also shown where it goes on."""
    admitted = [t.ms for t in traces if t.admitted]
    sent = [t.ms + t.delay_ms for t in traces if t.admitted]
    delayed = any(t.delay_ms for t in traces)
    description = (f'Of {len(traces)} requests {len(admitted)} were admitted; the limit is {limit} per '
                   f'{period_ms // 1000} seconds.')
    canvas = Canvas(title, description, span_ms)
    canvas.key(LEFT, ASKED, 'asked')
    canvas.key(LEFT + 70, ADMITTED, 'admitted')
    if delayed:
        canvas.key(LEFT + 160, SENT, 'goes on, after its delay')
    canvas.text(WIDTH - RIGHT, 30, description, 'end')

    base = BARS_TOP + BARS_HEIGHT
    unit = BARS_HEIGHT / bars_most
    half = BIN_MS / 2 if delayed else BIN_MS
    for at, count in binned([t.ms for t in traces]).items():
        canvas.bar(at, BIN_MS, base, count * unit, ASKED)
    for at, count in binned(admitted).items():
        canvas.bar(at, half, base, count * unit, ADMITTED)
    if delayed:
        for at, count in binned(sent).items():
            canvas.bar(at + half, half, base, count * unit, SENT)
    canvas.scale(BARS_TOP, BARS_HEIGHT, bars_most, 5)
    canvas.text(LEFT + 4, BARS_TOP + 12, 'requests in half a second')
    canvas.seconds(base, 5)

    floor = ROLL_TOP + ROLL_HEIGHT
    points = [(0, 0)] + rolling(sent if delayed else admitted, period_ms) + [(span_ms, None)]
    path, level = [], 0
    for at, value in points:
        if at <= span_ms:
            level = level if value is None else value
            path.append(f'{canvas.x(at):.1f},{floor - ROLL_HEIGHT * level / rolling_most:.1f}')
    colour = SENT if delayed else ADMITTED
    canvas.parts.append(f'<polyline points="{" ".join(path)}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    y = floor - ROLL_HEIGHT * limit / rolling_most
    canvas.line(LEFT, y, WIDTH - RIGHT, y, LIMIT, '4 3')
    canvas.text(LEFT + 4, y - 3, f'limit {limit}', colour=LIMIT)
    canvas.scale(ROLL_TOP, ROLL_HEIGHT, rolling_most, 10)
    what = 'went on' if delayed else 'admitted'
    canvas.text(LEFT + 4, ROLL_TOP + 8, f'{what} in the last {period_ms // 1000} s')
    canvas.seconds(floor, 5)
    return canvas.done()
