"""Compare: measurements as tables, a row per sub_label and number of threads, a column per description."""

import math

from taper.utils.benchmark.measurement import Measurement, ordered_unique, select_unit, trim_sigfig, unit_to_english

_BEST = "\x1b[92m\x1b[1m{}\x1b[0m"


class _Table:
    """The measurements of one label."""

    def __init__(self, results, trim, colour, rowwise, warn):
        self.results, self.trim, self.colour, self.rowwise, self.warn = results, trim, colour, rowwise, warn
        self.label = results[0].task_spec.label or results[0].task_spec.stmt
        self.columns = ordered_unique(result.task_spec.description for result in results)
        envs = ordered_unique(result.task_spec.env for result in results)
        self.rows = {}
        for result in results:
            name = result.as_row_name if len(envs) == 1 else f"({result.env})  {result.as_row_name}"
            self.rows.setdefault((result.task_spec.num_threads, name), {})[result.task_spec.description] = result
        self.unit, self.scale = select_unit(min(result.median for result in results))

    def _digits(self, column):
        """After the point, in a column."""
        found = [row[column] for row in self.rows.values() if column in row]
        if not self.trim:
            return 1
        return min(
            max(result.significant_figures - max(math.ceil(math.log10(result.median / self.scale)), 1), 0)
            for result in found
        )

    def _cell(self, result, digits):
        value = result.median / self.scale
        value = trim_sigfig(value, result.significant_figures) if self.trim else value
        warning = f" (! {result.iqr / result.median * 100:.0f}%)" if self.warn and result.has_warnings else ""
        return f"{value:.{digits}f}{warning}"

    def _best(self, key, column):
        """Is this the fastest of its column (or row)?"""
        row = self.rows[key]
        rivals = row.values() if self.rowwise else [other[column] for other in self.rows.values() if column in other]
        return row[column].median <= min(rival.median for rival in rivals)

    def lines(self):
        cells = {}
        for column in self.columns:
            digits = self._digits(column)
            texts = {key: self._cell(row[column], digits) for key, row in self.rows.items() if column in row}
            width = max(map(len, texts.values()))
            cells[column] = {key: text.rjust(width) for key, text in texts.items()}
        names = {key: "      " + key[1] for key in self.rows}
        first = max(len(f"{threads} threads") for threads, _ in self.rows)
        first = max([first, *map(len, names.values())])
        heads = {column: column or "" for column in self.columns}
        widths = {column: max([len(heads[column]), *map(len, cells[column].values())]) for column in self.columns}

        def line(name, texts, key=None):
            shown = [texts.get(column, "").center(widths[column]) for column in self.columns]
            if key and self.colour:
                shown = [
                    _BEST.format(text) if column in self.rows[key] and self._best(key, column) else text
                    for text, column in zip(shown, self.columns)
                ]
            return "  |  ".join([name.ljust(first), *shown])

        head = line("", heads)
        yield f"[{(' ' + self.label + ' ').center(len(head) - 2, '-')}]"
        yield head
        before = None
        for key in sorted(self.rows, key=lambda key: key[0]):
            if key[0] != before:
                before = key[0]
                yield f"{before} threads: ".ljust(len(head), "-")
            yield line(names[key], {column: cells[column][key] for column in self.columns if key in cells[column]}, key)
        yield ""
        yield f"Times are in {unit_to_english(self.unit)}s ({self.unit})."
        if self.warn and any(result.has_warnings for result in self.results):
            yield "(! XX%) Measurement has high variance, where XX is the IQR / median * 100."


class Compare:
    """Tables of measurements, one for each label."""

    def __init__(self, results):
        self._results, self._trim, self._colour, self._rowwise, self._warn = [], False, False, False, False
        self.extend_results(results)

    def extend_results(self, results):
        """More measurements."""
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(result)} instead.")
        self._results.extend(results)

    def trim_significant_figures(self):
        """Digits that mean nothing are left out."""
        self._trim = True

    def colorize(self, rowwise=False):
        """The fastest of each column (or row) stands out."""
        self._colour, self._rowwise = True, rowwise

    def highlight_warnings(self):
        """Says where the times vary much."""
        self._warn = True

    def __str__(self):
        tables = {}
        for result in Measurement.merge(self._results):
            tables.setdefault(result.task_spec.label or result.task_spec.stmt, []).append(result)
        return "\n".join(
            "\n".join(_Table(results, self._trim, self._colour, self._rowwise, self._warn).lines()) + "\n"
            for results in tables.values()
        )

    __repr__ = __str__

    def print(self):
        """To the standard output."""
        print(str(self))
