"""What every floor above stands on: arrays, validation, threads and blocks, progress."""

from vicinal._base._arrays import (
    as_numpy,
    check_same_device,
    check_same_library,
    device_classes,
    free_memory,
    is_array_api,
    is_torch,
    namespace,
    take_rows,
)
from vicinal._base._blocks import Block, Blocks, add_tuples, join_blocks, rows_at, stack_rows
from vicinal._base._capture import captured
from vicinal._base._draws import row_uniforms
from vicinal._base._estimator import atomic_fit, atomic_fit_blocks, refuse
from vicinal._base._files import whole_file, write_whole
from vicinal._base._held_out import (
    HeldOut,
    aligned_answers,
    cross_fit,
    fit_weighted,
    fold_entries,
    held_out,
    last_step,
    seeded_clone,
    takes_weights,
)
from vicinal._base._memory import row_blocks
from vicinal._base._optional import import_optional
from vicinal._base._parallel import draw_seeds, n_threads, parallel_map, thread_map
from vicinal._base._progress import Progress
from vicinal._base._saved import check_saved, saved, saved_name, saved_part
from vicinal._base._survey import (
    Moments,
    Survey,
    block_moments,
    dense,
    merge_moments,
    sample_rows,
    survey,
)
from vicinal._base._validation import (
    check_device_weights,
    check_magnitude,
    check_neighbor_count,
    check_weights,
    class_factors,
    encode_device_labels,
    encode_labels,
    is_ready,
    positive_rows,
    validate_array_api,
    weighted_device_rows,
)

__all__ = [
    "Block",
    "Blocks",
    "HeldOut",
    "Moments",
    "Progress",
    "Survey",
    "add_tuples",
    "aligned_answers",
    "as_numpy",
    "atomic_fit",
    "captured",
    "atomic_fit_blocks",
    "block_moments",
    "check_device_weights",
    "check_magnitude",
    "check_neighbor_count",
    "check_same_device",
    "check_same_library",
    "check_saved",
    "check_weights",
    "class_factors",
    "cross_fit",
    "dense",
    "device_classes",
    "draw_seeds",
    "encode_device_labels",
    "encode_labels",
    "fit_weighted",
    "fold_entries",
    "free_memory",
    "held_out",
    "import_optional",
    "is_array_api",
    "is_ready",
    "is_torch",
    "join_blocks",
    "last_step",
    "merge_moments",
    "n_threads",
    "namespace",
    "parallel_map",
    "positive_rows",
    "refuse",
    "row_blocks",
    "row_uniforms",
    "rows_at",
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
    "weighted_device_rows",
    "whole_file",
    "write_whole",
]
