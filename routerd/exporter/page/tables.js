// ---- Tables: sorted by a column's button, and searched ----

// Roles are said, because some browsers forget those of a table whose rows are laid out as a grid (page.css).
const roled = (kind, role, ...content) => Object.assign(make(kind, ...content), { role });

class Table {
  // A column: [title, value of a row, how the value is shown, its class, more]. `more` may have `press`, which makes
  // each cell a button; `said`, that button's name for a screen reader; and `by`, the attribute by which the router
  // sorts. A table with `ask` leaves search and order to the router: `ask` is called when one of them changes.
  constructor(id, columns, { wanted = () => true, ask = null } = {}) {
    Object.assign(this, { columns, wanted, ask, rows: [], total: 0, sorted: -1, down: false });
    this.search = $(id + "-search");
    this.count = $(id + "-count");
    this.body = roled("tbody", "rowgroup");
    this.foot = roled("tfoot", "rowgroup");
    this.heads = columns.map(([title, , , name = "", more = {}], place) => {
      const head = roled("th", "columnheader", ask && !more.by ? title : [pressed(title, () => this.sort(place))], name && "text");
      head.scope = "col";
      return head;
    });
    const head = roled("thead", "rowgroup", [roled("tr", "row", this.heads)]);
    $(id).role = "table";
    $(id).setAttribute("aria-labelledby", $(id).closest("section").getAttribute("aria-labelledby"));
    $(id).replaceChildren(head, this.body, this.foot);
    if (this.search) this.search.oninput = () => this.changed();
  }
  get order() {
    return this.sorted < 0 ? {} : { orderBy: this.columns[this.sorted][4].by, descending: this.down };
  }
  sort(place, down = null) {
    const turned = this.sorted === place ? !this.down : !this.columns[place][3]; // figures: the largest first
    Object.assign(this, { sorted: place, down: down ?? turned });
    this.heads.forEach((head, i) => {
      if (i === place) head.setAttribute("aria-sort", this.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.changed();
  }
  changed() {
    if (this.ask) this.ask(); else this.show();
  }
  update(rows, total = rows.length) {
    Object.assign(this, { rows, total });
    this.show();
  }
  show() {
    const found = this.ask ? this.rows : this.chosen();
    const held = this.body.contains(document.activeElement) ? document.activeElement.dataset.key : "";
    this.body.replaceChildren(...found.map(row => roled("tr", "row", this.columns.map(column => this.cell(row, column)))));
    if (held) this.hold(held);
    if (this.count) set(this.count, `(${found.length} of ${this.total})`);
  }
  // Give the focus to the button with this key or, if its row is gone, to the table: it must not fall back to the page's top.
  hold(key) {
    const button = [...this.body.querySelectorAll("button")].find(one => one.dataset.key === key);
    (button ?? this.body.closest("[tabindex]"))?.focus();
  }
  chosen() {
    const sought = this.search ? this.search.value.trim().toLowerCase() : "";
    const found = this.rows.filter(row => this.wanted(row) && (!sought
      || this.columns.some(([, value, , name]) => name && String(value(row)).toLowerCase().includes(sought))));
    if (this.sorted >= 0) {
      const value = this.columns[this.sorted][1], sign = this.down ? -1 : 1;
      found.sort((a, b) => sign * compare(value(a), value(b)));
    }
    return found;
  }
  cell(row, [title, value, shown = String, name, { press = null, said = null } = {}]) {
    const words = shown(value(row), row);
    const cell = roled("td", "cell", press && words !== "" ? [pressed(words, () => press(row), said && said(row))] : words,
      typeof name === "function" ? name(row) : name);
    if (press && words !== "") cell.firstChild.dataset.key = `${title} ${this.columns[0][1](row)}`;
    if (cell.className.includes("text")) cell.title = cut(cell.textContent, 1000);
    return cell;
  }
}
function compare(a, b) {
  if (a == null || b == null) return (a == null) - (b == null);
  return typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b;
}
