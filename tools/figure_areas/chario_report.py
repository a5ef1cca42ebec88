# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The report of CharIO's figures, one HTML file: predictability as box plots, then every figure.

The thesis's figures 4.5 and 4.6 are the two upper panels: interrupts of each call of 64 MiB, by path. Below
them is the same for the drive's commands.
"""

from html import escape

WIDTH, LEFT, RIGHT, ROW, TOP, BOTTOM = 760, 190, 24, 30, 34, 52
STYLE = """
:root { color-scheme: light dark; --ink: #1c2733; --soft: #5b6875; --line: #d5dbe1; --back: #fff; --box: #9ecae1;
  --ours: #f2a65a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf0; --soft: #9aa7b4; --line: #39444f; --back: #12181e;
  --box: #37698a; --ours: #b96f22; } }
body { margin: 0 auto; padding: 1rem; max-width: 52rem; background: var(--back); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
figure { margin: 0; } figcaption, p.soft, td.soft { color: var(--soft); }
svg { width: 100%; height: auto; } svg text { fill: var(--ink); font-size: 13px; }
svg .soft { fill: var(--soft); } svg .grid { stroke: var(--line); }
svg .box { stroke: var(--ink); fill: var(--box); } svg .ours { fill: var(--ours); }
svg .line { stroke: var(--ink); } svg .dot { fill: none; stroke: var(--ink); }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .2rem .6rem .2rem 0; border-bottom: 1px solid var(--line); }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
"""


def quantile(values, share):
    """The value at a share of the way through, of values in order."""
    return values[round(share * (len(values) - 1))]


def step_of(most):
    """A round distance between ticks, for about five of them."""
    step = 1
    while most / step > 6:
        for factor in (2, 2.5, 2):
            step *= factor
            if most / step <= 6:
                break
    return int(step)


def box_plot(groups, unit, computed):
    """Box plots side by side, an SVG element. `groups`: {path: values}."""
    most = max(max(values) for values in groups.values()) or 1
    step = step_of(most)
    height = TOP + ROW * len(groups) + BOTTOM
    x = lambda value: LEFT + (WIDTH - LEFT - RIGHT) * value / most  # noqa: E731
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" xmlns="http://www.w3.org/2000/svg">']
    for tick in range(0, int(most) + 1, step):
        parts.append(f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{TOP - 12}" y2="{height - BOTTOM}"/>')
        parts.append(f'<text x="{x(tick):.1f}" y="{height - BOTTOM + 18}" text-anchor="middle">{tick:,}</text>')
    parts.append(f'<text class="soft" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{height - 8}" text-anchor="middle">{unit}/call</text>')
    parts.append(f'<text class="soft" x="{LEFT}" y="14">CharIO computed: {computed:,}</text>')
    for index, (name, values) in enumerate(groups.items()):
        y = TOP + ROW * index + ROW // 2
        low, first, median, third, high = (quantile(sorted(values), share) for share in (0, 0.25, 0.5, 0.75, 1))
        kind = "box ours" if name.startswith("chario") else "box"
        parts.append(f"<g><title>{escape(name)}: {low} to {high}, median {median}, {len(values)} calls</title>")
        parts.append(f'<text x="{LEFT - 10}" y="{y + 5}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<line class="line" x1="{x(low):.1f}" x2="{x(high):.1f}" y1="{y}" y2="{y}"/>')
        for end in (low, high):
            parts.append(f'<line class="line" x1="{x(end):.1f}" x2="{x(end):.1f}" y1="{y - 5}" y2="{y + 5}"/>')
        width = max(x(third) - x(first), 3)
        parts.append(f'<rect class="{kind}" x="{x(first) - 1:.1f}" y="{y - 8}" width="{width:.1f}" height="16"/>')
        parts.append(f'<line class="line" stroke-width="2" x1="{x(median):.1f}" x2="{x(median):.1f}" y1="{y - 8}" y2="{y + 8}"/></g>')
    return "\n".join([*parts, "</svg>"])


def panels(rows, computed):
    """Four panels: interrupts of reads and writes, then commands."""
    for place, unit, expected in ((4, "interrupts", computed[1]), (3, "commands", computed[0])):
        for operation in ("read", "write"):
            groups = {}
            for row in rows:
                if row[2] == operation:
                    name = row[1] + (", RT kernel" if row[0] == "rt" else "")
                    groups.setdefault(name, []).append(row[place])
            # This project's paths first, then in the order of measurement.
            groups = dict(sorted(groups.items(), key=lambda group: not group[0].startswith("chario")))
            yield f"{unit.capitalize()} of {operation}s of 64 MiB", box_plot(groups, unit, expected)


def report(rows, computed, figures):
    """The page. `rows`: kernel, path, operation, commands, interrupts of each call."""
    parts = ['<!doctype html><html lang="en"><head><meta charset="utf-8"><title>CharIO</title>',
             '<meta name="viewport" content="width=device-width, initial-scale=1">',
             f"<style>{STYLE}</style></head><body><h1>CharIO: the cost of a call and its predictability</h1>",
             f'<p class="soft">{len(rows):,} calls of 64 MiB in the lab. An emulated drive: counts are exact, times are not '
             "those of a real one. Each box is the middle half of the calls, the line in it is their median, the whiskers "
             "reach to the minimum and the maximum.</p>"]  # fmt: skip
    for title, plot in panels(rows, computed):
        parts.append(f"<h2>{title}</h2><figure>{plot}</figure>")
    parts.append('<h2>Every figure</h2><div class="wide"><table><tr><th>figure<th class="number">value<th>unit<th>target<th></tr>')
    for row in figures:
        value = f"{row['value']:,.2f}" if isinstance(row["value"], float) else f"{row['value']:,}"
        parts.append(f'<tr><td>{escape(row["name"])}<td class="number">{value}<td class="soft">{escape(row["unit"])}'
                     f'<td class="soft">{escape(row["target"] or "")}<td>{row["verdict"] if row["target"] else ""}</tr>')  # fmt: skip
    parts.append("</table></div></body></html>\n")
    return "\n".join(parts)
