"""How the report looks: light, dark and printed, wide and narrow. It loads nothing, and runs no script."""

from typing import Final

# Colours of latency classes, from little to much; of series and outcomes. Neighbours differ in lightness, so that they
# are also told apart without colours.
_HEAT_LIGHT: Final = (
    "#eef4fb", "#d6e6f4", "#abd0e6", "#fdedb0", "#fed976", "#feb24c", "#fd8d3c", "#f4511e", "#d7191c", "#9e0b25",
    "#5b0417",
)  # fmt: skip
_HEAT_DARK: Final = (
    "#17222e", "#1d3347", "#254b69", "#4a3f16", "#6d5711", "#8f6a0d", "#b4690e", "#d8661c", "#f07c4a", "#f9a58a",
    "#ffd9cf",
)  # fmt: skip
_LINES_LIGHT: Final = ("#1d4ed8", "#c2410c", "#047857", "#a21caf", "#6d28d9", "#475569")
_LINES_DARK: Final = ("#7aa2ff", "#fb923c", "#34d399", "#f0abfc", "#c4b5fd", "#a8b3c4")


def _colours(name: str, values: tuple[str, ...]) -> str:
    return "".join(f"--{name}{at}:{value};" for at, value in enumerate(values))


_LIGHT: Final = (
    "--ink:#1b1f24;--paper:#fff;--quiet:#5b626c;--line:#d5d9df;--stripe:#f5f6f8;--card:#fff;--link:#1d4ed8;"
    "--bad:#b42318;--warn:#946200;--good:#11703c;--bad-soft:#fdecea;--warn-soft:#fdf4dc;--good-soft:#e7f6ec;"
    + _colours("h", _HEAT_LIGHT)
    + _colours("s", _LINES_LIGHT)
)
_DARK: Final = (
    "--ink:#e6e8eb;--paper:#14171b;--quiet:#a3abb6;--line:#353b44;--stripe:#1a1e24;--card:#1a1e24;--link:#8fb0ff;"
    "--bad:#ff8a80;--warn:#f5c24a;--good:#6fd79a;--bad-soft:#3a1a18;--warn-soft:#352a10;--good-soft:#142e1f;"
    + _colours("h", _HEAT_DARK)
    + _colours("s", _LINES_DARK)
)

STYLE: Final = (
    f":root{{color-scheme:light dark;--gutter:11rem;{_LIGHT}}}\n"
    f"@media screen and (prefers-color-scheme:dark){{:root{{{_DARK}}}}}\n"
    """\
* { box-sizing: border-box; }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
body { max-width: 80rem; margin: 1.5rem auto 4rem; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.05rem; font-weight: 600; color: var(--quiet); margin: 0; }
h2 { font-size: 1.2rem; margin: 2.6rem 0 0; } h3 { font-size: 1rem; margin: 1.4rem 0 0; }
a { color: var(--link); } :focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
p.note { color: var(--quiet); margin: .2rem 0 .8rem; max-width: 60rem; }
nav { margin: 1rem 0; display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; }
section.verdict { border: 1px solid var(--line); border-left: .5rem solid var(--tone); border-radius: .5rem; }
section.verdict { background: var(--soft); padding: .8rem 1.1rem; margin: .7rem 0 1rem; }
section.verdict p { margin: .3rem 0; }
section.verdict p.first { font-size: 1.45rem; font-weight: 650; line-height: 1.25; }
section.verdict ul { margin: .5rem 0; padding-left: 1.2rem; } section.verdict li { margin: .25rem 0; }
.bad { --tone: var(--bad); --soft: var(--bad-soft); } .warn { --tone: var(--warn); --soft: var(--warn-soft); }
.good { --tone: var(--good); --soft: var(--good-soft); }
dl { display: grid; gap: .6rem; margin: 1rem 0; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); }
dl div { border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .8rem; }
dt { color: var(--quiet); font-size: .85rem; } dd { margin: 0; font-size: 1.25rem; }
dd small { font-size: .8rem; color: var(--quiet); display: block; }
div.wide { overflow-x: auto; margin-top: .6rem; max-width: 100%; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--quiet); font-size: .85rem; padding-bottom: .2rem; }
th, td { padding: .25rem .5rem; text-align: left; vertical-align: top; white-space: nowrap; }
th, td { border-bottom: 1px solid var(--line); unicode-bidi: isolate; }
th { color: var(--quiet); font-weight: 600; font-size: .85rem; vertical-align: bottom; }
table:not(.cards) :is(th, td):first-child { position: sticky; left: 0; background: var(--paper); }
tbody tr:nth-child(even), table:not(.cards) tr:nth-child(even) > td:first-child { background: var(--stripe); }
tr:target { outline: 2px solid var(--link); }
td.number, th.number { text-align: right; }
td.long { white-space: normal; overflow-wrap: anywhere; min-width: 12rem; }
details { margin: .5rem 0 0; } summary { cursor: pointer; color: var(--link); }
figure { margin: 1.2rem 0 0; break-inside: avoid; min-width: 0; }
figcaption { display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin-bottom: .4rem; font-size: .9rem; }
figcaption b { margin-right: .4rem; }
i.key { display: inline-block; width: .8rem; height: .8rem; margin-right: .35rem; border-radius: .1rem; }
div.plot { display: grid; grid-template-columns: var(--gutter) minmax(0, 1fr); column-gap: .5rem; font-size: .8rem; }
div.plot svg { width: 100%; height: 8rem; display: block; }
div.scale { display: flex; flex-direction: column; justify-content: space-between; text-align: right; }
div.scale { margin: -.55rem 0; color: var(--quiet); }
div.names span, div.names a { display: block; height: 1.3rem; line-height: 1.3rem; }
div.names span, div.names a { overflow: hidden; white-space: nowrap; text-overflow: ellipsis; text-align: right; }
div.times { grid-column: 2; display: flex; justify-content: space-between; color: var(--quiet); margin-top: .2rem; }
div.times span { white-space: nowrap; }
div.small { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 23rem), 1fr)); gap: 0 1.4rem; }
div.small div.plot { --gutter: 3.6rem; } div.small div.plot svg { height: 5rem; }
div.small figure { margin-top: .9rem; }
div.small figcaption { flex-wrap: nowrap; } div.small figcaption b { overflow: hidden; text-overflow: ellipsis; }
div.small div.scale span:not(:first-child):not(:last-child) { display: none; }
div.small div.times span:not(:first-child):not(:last-child) { display: none; }
div.side { display: flex; flex-wrap: wrap; gap: 0 2.5rem; align-items: flex-start; }
div.side > * { min-width: 0; max-width: 100%; }
div.small figcaption b { white-space: nowrap; min-width: 0; } div.small figcaption span { white-space: nowrap; }
svg.time * { vector-effect: non-scaling-stroke; } svg.time line { stroke: var(--line); stroke-width: 1; }
svg.time line.day { stroke: var(--quiet); stroke-dasharray: 3 3; } svg path.line { fill: none; stroke-width: 1.6; }
svg .mark { fill: none; stroke: var(--ink); stroke-width: 1.5; pointer-events: none; }
svg .band { fill: var(--bad); opacity: .13; } svg .lane { fill: var(--tone); }
svg.time rect:hover { stroke: var(--ink); stroke-width: 2; }
svg.network { width: 100%; max-width: 36rem; display: block; margin: 0 auto; }
svg.network text { fill: var(--ink); font-size: 12px; text-anchor: middle; }
svg.network text.quiet { fill: var(--quiet); font-size: 10px; }
svg.network circle { fill: var(--card); stroke: var(--quiet); stroke-width: 1.5; }
svg.network circle.bad { stroke: var(--bad); stroke-width: 4; } svg.network circle.warn { stroke: var(--warn); }
svg.network circle.warn { stroke-width: 4; } svg.network .edge { fill: var(--s0); opacity: .75; }
svg.network text.over { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; }
@media screen and (max-width: 60rem) {
 table.cards thead { display: none; } table.cards, table.cards tbody, table.cards caption { display: block; }
 table.cards tr { display: block; padding: .5rem 0; border-bottom: 1px solid var(--line); }
 table.cards td { display: grid; grid-template-columns: 7rem minmax(0, 1fr); border: 0; padding: .1rem .4rem; }
 table.cards td { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 0; }
 table.cards td::before { content: attr(data-head); color: var(--quiet); }
 table.cards td:empty { display: none; }
}
@media screen and (max-width: 44rem) {
 :root { --gutter: 6rem; } section.verdict p.first { font-size: 1.2rem; }
 div.times span:nth-child(even) { display: none; }
}
@media print {
 body { max-width: none; margin: 0; font-size: 11px; } nav, details { display: none; } a { color: inherit; }
 * { print-color-adjust: exact; } h2 { break-after: avoid; margin-top: 1.4rem; }
 dl div, tr, figure { break-inside: avoid; } div.small { grid-template-columns: repeat(2, minmax(0, 1fr)); }
 div.plot svg { height: 6rem; } div.small div.plot svg { height: 3.5rem; } div.wide { overflow: visible; }
 td, th { white-space: normal; overflow-wrap: break-word; } p.note { break-after: avoid; }
 :root { color-scheme: light; --gutter: 8rem; }
}
"""
    + "".join(f"svg .h{at}{{fill:var(--h{at})}}i.h{at}{{background:var(--h{at})}}\n" for at in range(len(_HEAT_LIGHT)))
    + "".join(
        f"svg .s{at}{{stroke:var(--s{at})}}svg .f{at}{{fill:var(--s{at})}}i.s{at}{{background:var(--s{at})}}\n"
        for at in range(len(_LINES_LIGHT))
    )
)
SERIES: Final = len(_LINES_LIGHT)
