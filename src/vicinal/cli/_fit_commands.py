"""Commands that start from a table: `compare`, `check` and `fit`.

A command imports what it needs when it runs.
"""

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from vicinal.cli import _options as shared
from vicinal.cli._options import Texts, app
from vicinal.cli._show import InputError, as_text, log, quoted


@app.command("compare")
def compare_models(
    tables: Annotated[
        list[Path] | None,
        Argument(
            help=f"{shared.FORMATS} None: an embedded set.", callback=shared.existing("table")
        ),
    ] = None,
    target: Annotated[str | None, Option("--target", "-t", help="The column to predict.")] = None,
    data: Annotated[
        Literal["breast_cancer", "wine", "digits", "diabetes"],
        Option(help="The embedded set that is used without a table."),
    ] = "breast_cancer",
    models: Annotated[
        str | None, Option(help="Names, separated by commas; all by default.")
    ] = None,
    metric: shared.Metric = None,
    budget: Annotated[str, Option(help="Time for all models: 90s, 5m, 1h.")] = "90s",
    cv: shared.CV = None,
    seed: shared.Seed = 0,
    jobs: Annotated[
        int | None, Option(help="Folds at a time, each a process; one per core, at most 4.")
    ] = None,
    out: shared.Page = Path("report.html"),
    save: Annotated[
        Path | None, Option(help="Where the best model, fitted on all rows, goes.")
    ] = None,
    task: shared.Task = None,
    drop: shared.Drop = None,
    category: shared.Category = None,
    group: shared.Group = None,
    time_column: shared.TimeColumn = None,
    weight: shared.Weight = None,
    positive: shared.Positive = None,
    cost: shared.Cost = None,
    strict: shared.Strict = False,
    delimiter: shared.Delimiter = None,
    cache: Annotated[
        Path | None, Option(help="Folder of finished folds; yours by default.")
    ] = None,
    fresh: Annotated[bool, Option("--fresh", help="Neither read nor write the cache.")] = False,
    as_json: shared.AsJson = False,
) -> None:
    """Compare local models with baselines on one table and write an HTML report.

    A run that was stopped can be continued: the same command computes only the missing folds.

    \b
    vicinal compare
    vicinal compare people.csv --target income --budget 5m
    vicinal compare people.csv -t income --models local,random-forest --metric auc
    vicinal compare sales.parquet -t price --drop id,draft --json > board.json
    vicinal compare visits.csv -t outcome --group patient --save best.vicinal
    vicinal compare fraud.csv -t fraud --positive yes --cost 20 --save best.vicinal
    """
    from vicinal._base import _clock
    from vicinal.cli import _check_table, _models, _read_table, _threshold, _training

    started = _clock.now()
    _read_table.check_folder(out, "--out")
    if save is not None:
        _read_table.check_folder(save, "--save")
    _threshold.check_cost(cost)
    seconds, folds = _training.parse_seconds(budget), _training.parse_cv(cv, time_column)
    n_folds = _training.FOLDS if folds == "time" else folds
    jobs = jobs or _training.usual_jobs()
    # Imported after the options are checked, because it imports all models.
    from vicinal.inspection.candidates import candidate_models

    checked = _check_table.load_table(
        tables or data,
        target,
        delimiter,
        min_rows=2 * n_folds,
        task=task,
        drop=drop,
        category=category,
        group=group,
        time=time_column,
        weight=weight,
        strict=strict,
    )
    label = _threshold.positive_label(checked, positive, cost)
    chosen = candidate_models(checked.task, random_state=seed)
    chosen = chosen if models is None else _models.pick(chosen, models)
    _training.refuse_single(checked)
    scorer = _training.resolve_metric(metric, checked, label, n_folds)
    _check_table.warn(checked, seed)
    end = started + seconds + _training.compile_models(chosen, checked)
    page_seconds = min(_training.PAGE_SECONDS, _training.PAGE_SHARE * seconds)
    try:
        board = _training.leaderboard(
            checked,
            chosen,
            metric=scorer,
            positive=label,
            seconds=max(1.0, end - page_seconds - _clock.now()),
            cv=folds,
            random_state=seed,
            jobs=jobs,
            cache=None if fresh else cache or _training.cache_folder(),
            quiet=as_json,
        )
    except KeyboardInterrupt:
        if not fresh:
            log("finished folds are stored: the same command continues from there")
        raise
    if as_json:
        log(board.warning)
    print(as_text(board.to_dict()) if as_json else board)
    if not any(len(entry.scores) for entry in board.entries):
        raise RuntimeError("no model finished a fold; the lines above show the errors")
    threshold = None
    if cost is not None:
        threshold = _threshold.choose_threshold(board.entries[0].out_of_fold, checked, label, cost)
    end = min(end, _clock.now() + _training.PAGE_SHARE * seconds)
    page = _training.write_report(board, chosen, checked, seed, jobs, out, end, label, threshold)
    log(f"report: {page}")
    if save is not None:
        _training.save_best(board, chosen, checked, save, seconds, label, threshold)


@app.command("check")
def check_table(
    tables: shared.Tables,
    target: Annotated[
        str | None, Option("--target", "-t", help="The column to predict, if there is one.")
    ] = None,
    against: Annotated[
        Path | None, shared.table_option("New rows to compare with the table.")
    ] = None,
    out: shared.Page = Path("check.html"),
    task: shared.Task = None,
    drop: shared.Drop = None,
    seed: shared.Seed = 0,
    delimiter: shared.Delimiter = None,
    as_json: shared.AsJson = False,
) -> None:
    """Check a table before a model is fitted to it, and write a page.

    Suspicious labels, repeated rows, columns that leak the target or are uninformative, rare
    classes; with --against also how new rows differ, and rows that are in both tables.

    \b
    vicinal check people.csv --target income
    vicinal check people.csv --target income --against new.csv --out check.html
    """
    from vicinal.cli import _check_table, _progress, _read_table
    from vicinal.inspection import check
    from vicinal.report import write_html
    from vicinal.table import TableEncoder

    _read_table.check_folder(out, "--out")
    frame = _read_table.read_tables(tables, delimiter)
    new = None if against is None else _read_table.read_table(against, delimiter)
    frame = frame.drop(_check_table.columns_in(frame, drop))
    y, notes = None, []
    kind: str | None = task
    if target is not None:
        checked = _check_table.check_table(frame, target, task=task, every_column=True)
        frame, y, kind = checked.X, checked.y, checked.task
        notes = [note for note in checked.notes if "left out" in note and "rows" in note]
    if new is not None:
        missing = [name for name in frame.columns if name not in new.columns]
        if missing:  # row numbers and ids are not compared
            unused = TableEncoder().fit(frame).identifiers_
            missing = [name for name in missing if name not in unused]
        if missing:
            raise InputError(
                f"--against {str(against)!r} lacks {quoted(missing)}; leave out with --drop what "
                "new rows do not have"
            )
    with _progress.working("checking the table"):
        found = check(
            frame, y, against=new, task=kind, target=target or "target", random_state=seed
        )
    for note in notes:
        log(f"  note: {note}")
    print(as_text(found.to_dict()) if as_json else found)
    compared = "" if against is None else f" compared with {against.name}"
    title = f"Check of {tables[0].name}{compared}"
    log(f"page: {write_html(found, out, title=title, notes=notes)}")


@app.command("fit")
def fit_model(
    tables: shared.Tables,
    target: Annotated[str, Option("--target", "-t", help="The column to predict.")],
    out: Annotated[Path, Option("--out", "-o", help="Where the model goes.")],
    model: Annotated[str, Option("--model", "-m", help="Its name.")] = "auto",
    settings: Annotated[
        Texts, Option("--set", help="key=value of the model; may be repeated.")
    ] = None,
    preset: Annotated[
        Literal["fast", "default", "best"] | None,
        Option(help="What `auto` tries: less in less time, or more."),
    ] = None,
    seed: shared.Seed = 0,
    budget: Annotated[
        str, Option(help="Time for the fit of `auto`, and for the estimate of the score.")
    ] = "60s",
    cv: shared.CV = None,
    metric: shared.Metric = None,
    task: shared.Task = None,
    drop: shared.Drop = None,
    category: shared.Category = None,
    group: shared.Group = None,
    time_column: shared.TimeColumn = None,
    weight: shared.Weight = None,
    positive: shared.Positive = None,
    cost: shared.Cost = None,
    strict: shared.Strict = False,
    delimiter: shared.Delimiter = None,
) -> None:
    """Fit one model on a whole table and save it with its encoder.

    Prints the estimated score on held-out rows, from folds of the table.

    \b
    vicinal fit people.csv --target income --out people.vicinal
    vicinal fit people.csv -t income -m space-partitioning --set n_regions=4 -o people.vicinal
    vicinal fit fraud.csv -t fraud --positive yes --cost 20 -o fraud.vicinal
    vicinal fit sales.csv -t sold --time-column day --metric mae -o sales.vicinal
    """
    from vicinal._base import _clock
    from vicinal.cli import _check_table, _models, _read_table, _threshold, _training

    _read_table.check_folder(out, "--out")
    _threshold.check_cost(cost)
    seconds, folds = _training.parse_seconds(budget), _training.parse_cv(cv, time_column)
    checked = _check_table.load_table(
        tables,
        target,
        delimiter,
        task=task,
        drop=drop,
        category=category,
        group=group,
        time=time_column,
        weight=weight,
        strict=strict,
    )
    chosen = [*(settings or []), *([f"preset={preset}"] if preset else [])]
    name, estimator = _models.one_model(model, checked.task, seed, chosen)
    estimator = _training.within(estimator, seconds)
    label = _threshold.positive_label(checked, positive, cost)
    scorer = None if metric is None else _training.resolve_metric(metric, checked, label)
    own_folds = folds if cv is not None or folds == "time" else None
    _training.set_evaluation(estimator, checked, own_folds, scorer, label)
    _check_table.warn(checked, seed)
    if metric is None:
        _training.note_rare_class(checked)
    started = _clock.now()
    fitted = _training.fit_model(name, estimator, checked)
    if cost is None:
        _training.save_model(name, fitted, checked, out, positive=label)
    # Folds that will be done in time need no process of their own that could be stopped.
    is_quick = 2 * _training.FOLDS * (_clock.now() - started) < seconds
    limit = None if is_quick else seconds
    line, held_out = _training.estimate_score(
        name, estimator, fitted, checked, metric=scorer, cv=folds, seconds=limit, seed=seed
    )
    if cost is not None:
        threshold = _threshold.choose_threshold(held_out, checked, label, cost)
        _training.save_model(name, fitted, checked, out, positive=label, threshold=threshold)
        line += " if the most probable class is predicted"
    log(line)
