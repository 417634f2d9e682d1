"""`apolar fit` and `apolar select`: clusters of a table, a model and a report; candidates compared."""

from __future__ import annotations

import shlex
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apolar.cli.console import BadInput, Bar, as_number, escape_lines, print_object, say, show_grid
from apolar.cli.options import (
    GroupedCommand,
    check_sources,
    default_folder,
    families,
    id_option,
    json_option,
    mixture_options,
    numbers_of_components,
    outliers_option,
    resamples_option,
    table_options,
)
from apolar.cli.output import (
    PAGE_MARK,
    Output,
    appended_text,
    check_rereadable,
    csv_text,
    label_frames,
    label_lines,
    outlier_text,
    outliers_sentence,
)
from apolar.cli.sketch_command import fit_sketch
from apolar.exceptions import join_names

if TYPE_CHECKING:
    from apolar.cli.tables import TableFile
    from apolar.reports import Provenance
    from apolar.reports.analysis import Analysis
    from apolar.selection import Row


# Clusters that are described on the screen; the report has all.
MAX_DESCRIBED = 12


@click.command(cls=GroupedCommand)
@click.argument("data", nargs=-1)
@mixture_options(components=None)
@table_options
@click.option("--label-column", metavar="NAME", help="Known classes, to compare the clusters with.")
@id_option
@click.option("--sketch", type=click.Path(dir_okay=False), help="A sketch instead of DATA: no labels.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for the results; apolar-DATA.")
@click.option("--append", is_flag=True, help="Also write DATA with clusters and probabilities: table.csv.")
@outliers_option
@resamples_option
@click.option("--no-report", is_flag=True, help="Write no report.html.")
@json_option
def fit(
    data: tuple[str, ...],
    components: str | None,
    covariance: list[str],
    criterion: str | None,
    tails: Any,
    noise: bool | float | None,
    standardise: bool | None,
    seed: int,
    sketch: str | None,
    output: Path | None,
    append: bool,
    outliers: bool | float | None,
    resamples: int | None,
    no_report: bool,
    as_json: bool,
    **reading: Any,
) -> None:
    """Find clusters in a table: labels, model and report.

    DATA is a CSV, TSV, Parquet, Feather, NPY or XLSX file, several of them or
    a folder, or - for standard input. All numeric columns are used, except
    constants, row numbers, codes and copies, which are named. The results go
    to a folder: labels.csv (row, cluster, its probability, outlier, and the
    probability of each cluster), model.npz (for `apolar predict`) and
    report.html. Clusters are numbered from 1, the largest first.

    \b
    Examples:
      apolar fit iris.csv -k 3
      apolar fit iris.csv -k auto --label-column species
      apolar fit iris.csv -k 2-6 --covariance full,EEE,diag --criterion icl
      apolar fit iris.csv -k 3 --append --outliers
      apolar fit iris.csv -k 3 --noise
      apolar fit january.csv february.csv -k 4
      apolar fit - -k 4 --covariance spherical --columns x,y < points.tsv
      apolar fit --sketch sums.npz -k 4
      apolar fit --sketch sums.npz -k 4 --covariance diag

    \b
    Exit code: 0, 2 for bad input, 130 if interrupted. Nothing is half-written.
    """
    if bool(data) == (sketch is not None):
        raise click.UsageError("Give either DATA (a file, or - for standard input) or --sketch FILE.")
    if components is None:
        raise click.UsageError("How many clusters? Give -k 3, -k 2-6, or -k auto to have the number chosen.")
    if sketch is not None:
        of_rows = {"noise": noise, "tails": tails == "t", "append": append, "outliers": outliers}
        for name, value in {**of_rows, "resamples": resamples, **reading}.items():
            if value:
                option = name.replace("_", "-")
                raise click.UsageError(f"--{option} needs the rows: a sketch has only their sums.")
        folder = output or default_folder(sketch)
        fit_sketch(Path(sketch), components, covariance, folder, as_json, standardise)
        return
    numbers = numbers_of_components(components)
    check_sources(data)
    if append:
        check_rereadable(data)
    from apolar.cli.tables import expand_folders, read_table
    from apolar.cli.tables.findings import KINDS

    sources = [str(source) for source in expand_folders(data)]
    with Output(output or default_folder(data[0]), reads=sources, is_fit=True) as files, Bar() as bar:
        bar.begin("reading")
        table = read_table(data, keep_missing=True, leave_out=KINDS, **reading)
        from apolar.reports import report_page
        from apolar.reports.analysis import analyse

        _refuse_noise_with_missing(table, noise)
        kinds = _affordable_kinds(table, numbers, families(covariance, table.X.shape[1]))
        bar.begin("fitting")
        analysis = analyse(
            table.X,
            table.names,
            numbers,
            covariance_type=kinds,
            labels=table.labels,
            standardise=bool(standardise),
            criterion=criterion or ("clusters" if components == "auto" else "bic"),
            noise=noise or False,
            tails=tails,
            seed=seed,
            n_resamples=resamples or 0,
            callback=bar.candidates,
            report=bar.passes,
            **({"outlier_level": outliers} if isinstance(outliers, float) else {}),
        )
        bar.begin("writing")
        model, level = analysis.model, analysis.outlier_level
        written = {
            "labels": files.add_lines("labels.csv", label_lines(label_frames(model, table, analysis))),
            "model": files.add("model.npz", model.save),
        }
        if append:
            text = appended_text(sources, model, table, analysis, reading)
            is_tsv = Path(sources[0].removesuffix(".gz").removesuffix(".zst")).suffix in (".tsv", ".tab")
            written["table"] = files.add_lines("table.tsv" if is_tsv else "table.csv", text)
        if outliers is not None:
            written["outliers"] = files.add_lines("outliers.csv", outlier_text(model, table, analysis))
        try:
            if not no_report:
                made = replace(provenance(table, seed), model_file=str(written["model"]))
                page = report_page(analysis, table.X, made)
                written["report"] = files.add_lines("report.html", [PAGE_MARK, page])
        except ImportError as error:
            bar.end()
            say(f"No report is written. {error}", err=True)
    outlying = (table.row_numbers[analysis.outliers] + 1).tolist()
    if as_json:
        print_object(_as_object(analysis, table, written, outlying))
    else:
        is_told = bool(outlying) or outliers is not None
        _print(analysis, table, written, outliers_sentence(outlying, level) if is_told else "")


def _affordable_kinds(table: TableFile, numbers: int | list[int], kinds: Any) -> Any:
    """Return the covariances of a fit: diagonal ones where full ones by default have too many parameters.

    More than the table has values. Asked for, they are fitted with a warning.
    """
    from apolar.mixture.families import family

    n_columns = table.X.shape[1]
    most = numbers if isinstance(numbers, int) else max(numbers)
    named = [kinds] if isinstance(kinds, str) else kinds or ["full"]
    n_parameters = max(family(kind).n_covariance_parameters(most, n_columns) for kind in named)
    if n_parameters <= table.X.size:
        return kinds
    is_one = isinstance(numbers, int)
    done = "The fit may take long: use --covariance diag or --covariance spherical."
    if kinds is None:
        done = "Using diagonal ones" if is_one else "Comparing families with fewer"
        done += "; --covariance full for full ones."
    have = f"Covariances of {n_columns:,} columns have up to {n_parameters:,} parameters"
    say(f"{have}, more than the table has values. {done}", err=True)
    return "diag" if kinds is None and is_one else kinds


def _refuse_noise_with_missing(table: TableFile, noise: bool | float | None) -> None:
    """Name the options that help where noise is asked for and values are missing."""
    if noise and table.missing_line:
        raise BadInput("Values are missing, and --noise needs complete rows: add --drop-missing.")


def provenance(table: TableFile, seed: int, *notes: str) -> Provenance:
    """Return what a page says about how it was made."""
    from apolar.reports import Provenance

    # The page may be passed on: files by their names, without the folders of this machine.
    words = [Path(word).name if Path(word).exists() else word for word in sys.argv[1:]]
    names = [Path(name).name for name in table.files]
    return Provenance(
        join_names(names, most=3),
        shlex.join(["apolar", *words]),
        seed,
        notes=(*table.notes, *notes),
        row_numbers=table.row_numbers,
        row_names=table.ids,
        categories=table.categories,
    )


def _warnings_of(analysis: Analysis) -> list[str]:
    """Return the warnings of a fit, that it stopped early the first."""
    from apolar.reports.text import NOT_CONVERGED

    return [*([] if analysis.model.converged_ else [NOT_CONVERGED]), *analysis.warnings]


def _as_object(
    analysis: Analysis, table: TableFile, written: dict[str, Path], outlying: list[int]
) -> dict[str, Any]:
    """Return the result as JSON can hold it: null for numbers that are not finite."""
    from apolar.reports.text import choice

    model = analysis.model
    likelihood = analysis.likelihood
    likelihoods = {"log_likelihood": likelihood.log_likelihood, **likelihood.criteria}
    return {
        "source": table.source,
        "n_rows": analysis.n_rows,
        "n_dropped": table.n_dropped,
        "n_missing": analysis.n_missing.tolist(),
        "columns": list(analysis.names),
        "notes": list(table.notes),
        "n_clusters": len(analysis.groups),
        "n_components": len(model.weights_),
        "combined": [[k + 1 for k in group] for group in analysis.groups] if analysis.are_combined else None,
        "covariance": analysis.covariance_type,
        "degrees_of_freedom": None if model.dof is None else model.dof_.tolist(),
        "standardised": analysis.standardised,
        "weights": analysis.clusters.weights.tolist(),
        "rows": analysis.counts.tolist(),
        "noise_weight": float(model.noise_weight_),
        "noise_rows": analysis.n_noise,
        "means": analysis.clusters.means.tolist(),
        "deviations": analysis.deviations.tolist(),
        **{name: as_number(value) for name, value in likelihoods.items()},
        "n_parameters": likelihood.n_parameters,
        "converged": bool(model.converged_),
        "start": model.start_,
        "warnings": _warnings_of(analysis),
        "reason": None if analysis.selection is None else choice(analysis),
        "ari": None if analysis.truth is None else analysis.truth.ari,
        "error_rate": None if analysis.truth is None else analysis.truth.error_rate,
        "outliers": outlying,
        "outlier_level": analysis.outlier_level,
        "files": {name: str(path) for name, path in written.items()},
    }


def _print(analysis: Analysis, table: TableFile, written: dict[str, Path], outlying: str) -> None:
    from apolar._core.display import with_error
    from apolar.estimator.summary import tails_in_words
    from apolar.reports.text import (
        agreement,
        choice,
        headline,
        long_tails,
        spread_name,
        tails_sentence,
        traits,
    )

    model = analysis.model
    reason = "" if analysis.selection is None else choice(analysis)
    say(*table.notes, table.missing_line, headline(analysis), reason)
    clusters = analysis.clusters
    names = [f"{k + 1}" for k in range(len(clusters.weights))]
    counts, weights = analysis.counts.tolist(), clusters.weights.tolist()
    if analysis.has_noise:
        names.append("noise")
        counts.append(analysis.n_noise)
        weights.append(model.noise_weight_)
    fixed = {
        "cluster": names,
        "rows": [f"{count:,}" for count in counts],
        "weight": [f"{weight:.3f}" for weight in weights],
    }
    means = {
        name: [*map(with_error, clusters.means[:, j], analysis.deviations[:, j]), *[""] * analysis.has_noise]
        for j, name in enumerate(analysis.names)
    }
    show_grid(fixed, means, clusters.separation.tolist())
    fit, tails = analysis.likelihood, long_tails(analysis, table.X)
    how = "lower is better" if analysis.selection is not None else "lower is better; with the default prior"
    bic = f"BIC {fit.criteria['bic']:.2f} ({how}), {fit.n_parameters} parameters"
    per_row = fit.log_left_out / fit.n_samples
    new_row = f"Expected log-likelihood of a new row: {per_row:.4g}." if per_row == per_row else ""
    say(
        f"Means ± {spread_name(analysis)}s within the cluster.",
        *(
            f"Cluster {k + 1}: {', '.join(f'{trait.words} ({trait.values})' for trait in listed)}."
            for k, listed in enumerate(traits(analysis)[:MAX_DESCRIBED])
            if listed
        ),
        *tails_in_words(model),
        "" if analysis.truth is None else agreement(analysis),
        f"{bic}; best start: {model.start_}.",
        new_row,
        *([] if analysis.stability is None else analysis.stability.sentences()[:MAX_DESCRIBED]),
        outlying,
        tails_sentence(tails) if tails else "",
        *(f"Warning: {message}" for message in _warnings_of(analysis)),
        *(f"{name + ':':10}{path}" for name, path in written.items()),
    )


# --- select ---------------------------------------------------------------------------------------


@click.command(cls=GroupedCommand)
@click.argument("data", nargs=-1)
@mixture_options(components="1-9")
@table_options
@click.option("--label-column", metavar="NAME", help="A column to leave out, such as known classes.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for selection.csv.")
@json_option
def select(
    data: tuple[str, ...],
    components: str,
    covariance: list[str],
    criterion: str,
    tails: Any,
    noise: bool | float | None,
    standardise: bool | None,
    seed: int,
    output: Path | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Compare numbers of clusters and families of covariances.

    By default 1 to 9 clusters in every family; `apolar fit` takes the same
    options, and fits the best.

    \b
    Examples:
      apolar select iris.csv
      apolar select iris.csv -k 2-6 --covariance full,EEE,diag --criterion icl

    \b
    Exit code: 0, 2 for bad input, 130 if interrupted.
    """
    numbers = numbers_of_components(components)
    check_sources(data)
    import numpy as np
    import polars as pl

    from apolar.cli.tables import read_table
    from apolar.cli.tables.findings import KINDS
    from apolar.reports.scoring import column_deviations, column_statistics, select_in_units

    with Bar() as bar, warnings.catch_warnings():
        bar.begin("reading")
        table = read_table(data, keep_missing=True, leave_out=KINDS, **reading)
        _refuse_noise_with_missing(table, noise)
        bar.begin("comparing")
        warnings.simplefilter("ignore")  # they are in the table of the selection
        mean, variances, n_missing = column_statistics(table.X, table.names)
        selection = select_in_units(
            table.X,
            [numbers] if isinstance(numbers, int) else numbers,
            families(covariance, table.X.shape[1]),
            criterion,
            units=column_deviations(mean, variances, table.names) if standardise else np.ones(len(mean)),
            n_missing=n_missing,
            random_state=seed,
            noise=noise or False,
            distribution=("gaussian", "t") if tails == "auto" else tails,
            callback=bar.candidates,
        )
    rows = [_as_cells(row) for row in selection.table]
    if output is not None:
        with Output(output, reads=data) as files:
            files.add_lines("selection.csv", csv_text([pl.DataFrame(rows, infer_schema_length=None)]))
    if as_json:
        row = selection.best_row
        best = {"covariance": row.covariance_type, "components": row.n_components, "tails": row.distribution}
        answer = {"best": best, "criterion": criterion, "reason": selection.reason, "table": rows}
        print_object(answer | {"columns": list(table.names), "notes": list(table.notes)})
        return
    say(*table.notes, table.missing_line)
    click.echo(escape_lines(str(selection)))


def _as_cells(row: Row) -> dict[str, Any]:
    """Return a candidate by the names of the columns that are written; None for missing numbers."""
    from apolar.scores import CRITERIA

    return {
        "covariance": row.covariance_type,
        "components": row.n_components,
        "tails": row.distribution,
        "parameters": row.n_parameters,
        **{name: as_number(getattr(row, name)) for name in ("log_likelihood", *CRITERIA)},
        "converged": row.converged,
        "failed": row.failed or "",
        "dropped": row.dropped or "",
    }
