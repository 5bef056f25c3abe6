"""What every layer above uses: arrays, training data, validation, threads and blocks, progress."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vicinal._base._arrays import (
        as_given,
        as_numpy,
        captured,
        check_same_device,
        check_same_library,
        device_classes,
        exponentials,
        fill_entries,
        free_memory,
        is_array_api,
        is_on_device,
        is_torch,
        kth_smallest,
        namespace,
        take_rows,
    )
    from vicinal._base._blocks import (
        Blocks,
        ColumnMoments,
        Survey,
        add_tuples,
        block_moments,
        dense,
        join_blocks,
        merge_moments,
        rows_at,
        sample_rows,
        stack_rows,
        survey,
    )
    from vicinal._base._compat import import_optional
    from vicinal._base._docs import documented
    from vicinal._base._estimator import atomic_fit, atomic_fit_blocks, refuse
    from vicinal._base._files import printable, whole_file, write_whole
    from vicinal._base._forests import fit_forest, forest_leaves, forest_proba
    from vicinal._base._held_out import (
        HeldOut,
        aligned_predictions,
        cross_fit,
        finite_predictions,
        fit_weighted,
        fold_entries,
        group_folds,
        held_out,
        held_out_by_folds,
        hold_out,
        last_step,
        row_uniforms,
        rows_outside,
        seeded_clone,
        takes_weights,
    )
    from vicinal._base._parallel import draw_seeds, n_threads, parallel_map, row_blocks, thread_map
    from vicinal._base._progress import Progress
    from vicinal._base._saved import check_saved, saved, saved_name, saved_part
    from vicinal._base._training_data import (
        DeviceTrainingData,
        TrainingData,
        predicted_labels,
        query_rows,
        training_data,
    )
    from vicinal._base._validation import (
        check_device_weights,
        check_fold_count,
        check_groups,
        check_is_table,
        check_labels,
        check_magnitude,
        check_parameters,
        check_weights,
        class_factors,
        encode_device_labels,
        encode_labels,
        is_frame,
        is_ready,
        narrowed,
        positive_rows,
        reads_frames,
        validate_array_api,
    )

__all__ = [
    "Blocks",
    "HeldOut",
    "ColumnMoments",
    "Progress",
    "Survey",
    "DeviceTrainingData",
    "TrainingData",
    "predicted_labels",
    "query_rows",
    "training_data",
    "add_tuples",
    "aligned_predictions",
    "as_given",
    "as_numpy",
    "atomic_fit",
    "captured",
    "atomic_fit_blocks",
    "block_moments",
    "check_device_weights",
    "check_fold_count",
    "check_is_table",
    "check_groups",
    "check_labels",
    "check_magnitude",
    "check_parameters",
    "check_same_device",
    "check_same_library",
    "check_saved",
    "check_weights",
    "class_factors",
    "cross_fit",
    "dense",
    "device_classes",
    "documented",
    "draw_seeds",
    "encode_device_labels",
    "encode_labels",
    "exponentials",
    "fill_entries",
    "finite_predictions",
    "fit_weighted",
    "fold_entries",
    "fit_forest",
    "forest_leaves",
    "forest_proba",
    "free_memory",
    "group_folds",
    "held_out",
    "held_out_by_folds",
    "hold_out",
    "import_optional",
    "is_array_api",
    "is_on_device",
    "is_frame",
    "is_ready",
    "is_torch",
    "join_blocks",
    "kth_smallest",
    "last_step",
    "merge_moments",
    "n_threads",
    "namespace",
    "parallel_map",
    "narrowed",
    "positive_rows",
    "printable",
    "reads_frames",
    "refuse",
    "row_blocks",
    "row_uniforms",
    "rows_at",
    "rows_outside",
    "sample_rows",
    "saved",
    "saved_name",
    "saved_part",
    "seeded_clone",
    "stack_rows",
    "survey",
    "take_rows",
    "takes_weights",
    "thread_map",
    "validate_array_api",
    "whole_file",
    "write_whole",
]

# Imported on first use, the light ones first: `vicinal info` needs no scikit-learn.
_MODULES = (
    "_files", "_progress", "_arrays", "_saved", "_compat", "_docs", "_parallel", "_validation",
    "_held_out", "_training_data", "_blocks", "_estimator", "_forests",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    for module in _MODULES if name in __all__ else ():
        found = vars(import_module(f"vicinal._base.{module}"))
        if name in found:
            globals()[name] = found[name]
            return found[name]
    raise AttributeError(f"module 'vicinal._base' has no attribute {name!r}")
