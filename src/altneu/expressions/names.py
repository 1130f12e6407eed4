"""Names of functions that are not scalar functions, so that a message can say what they are."""

from __future__ import annotations

UPDATE_TIME = "#update_time"
"""The column in which plans have what ``update_time()`` is of a row."""

MOMENTS_OF_ONE = (
    "var_pop",
    "var_samp",
    "stddev_pop",
    "stddev_samp",
    "regr_sxx",
    "skewness",
    "kurtosis",
)
MOMENTS_OF_TWO = (
    "covar_pop",
    "covar_samp",
    "regr_sxy",
    "corr",
    "regr_r2",
    "regr_slope",
    "regr_intercept",
)
MOMENTS = MOMENTS_OF_ONE + MOMENTS_OF_TWO
"""Aggregates read from sums of products of one argument or two."""

ACCUMULABLE = frozenset(["count", "sum", "avg", "try_sum", "try_avg", "bit_and", "bit_or", "bit_xor", *MOMENTS])
"""Aggregates of which a few numbers per group are all the state, unless they are DISTINCT."""

RANKING = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile")
"""Window functions of a row's place."""

NEVER_NULL = frozenset(["count", "count_if", "collect_list", "collect_set", *RANKING])
"""Aggregates and window functions that have a value whatever the rows are, also where there are none."""

AGGREGATES = frozenset(
    [
        "any",
        "any_value",
        "approx_count_distinct",
        "approx_percentile",
        "approx_top_k",
        "approx_top_k_accumulate",
        "approx_top_k_combine",
        "array_agg",
        "avg",
        "bit_and",
        "bit_or",
        "bit_xor",
        "bitmap_and_agg",
        "bitmap_construct_agg",
        "bitmap_or_agg",
        "bool_and",
        "bool_or",
        "collect_list",
        "collect_set",
        "collect_union",
        "corr",
        "count",
        "count_if",
        "count_min_sketch",
        "covar_pop",
        "covar_samp",
        "every",
        "first",
        "first_value",
        "grouping",
        "grouping_id",
        "histogram_numeric",
        "hll_sketch_agg",
        "hll_union_agg",
        "kll_merge_agg_bigint",
        "kll_merge_agg_double",
        "kll_merge_agg_float",
        "kll_sketch_agg_bigint",
        "kll_sketch_agg_double",
        "kll_sketch_agg_float",
        "kurtosis",
        "last",
        "last_value",
        "listagg",
        "max",
        "max_by",
        "mean",
        "measure",
        "median",
        "min",
        "min_by",
        "mode",
        "percentile",
        "percentile_approx",
        "percentile_cont",
        "percentile_disc",
        "product",
        "regr_avgx",
        "regr_avgy",
        "regr_count",
        "regr_intercept",
        "regr_r2",
        "regr_slope",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
        "skewness",
        "schema_of_variant_agg",
        "some",
        "std",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "string_agg",
        "sum",
        "theta_intersection_agg",
        "theta_sketch_agg",
        "theta_union_agg",
        "try_avg",
        "try_sum",
        "tuple_intersection_agg_double",
        "tuple_intersection_agg_integer",
        "tuple_sketch_agg_double",
        "tuple_sketch_agg_integer",
        "tuple_union_agg_double",
        "tuple_union_agg_integer",
        "var_pop",
        "var_samp",
        "variance",
    ]
)
"""Every aggregate of Spark's, and ``product``, which its data frames have."""

PICKED = ("first", "first_value", "last", "last_value")
"""Aggregates of the row that is first or last in an order, whose nulls count unless they are to be ignored."""

NULLS = frozenset(
    {*PICKED, "collect_list", "array_agg", "collect_set", "any_value", "lag", "lead", "nth_value", "counter_diff"}
)
"""Functions that IGNORE NULLS stands beside."""

COLLECTED = ("collect_list", "array_agg", "collect_set")
"""Aggregates of all values, among them nulls only where these are to be respected."""

WINDOWS = frozenset(
    [
        "row_number",
        "rank",
        "dense_rank",
        "percent_rank",
        "ntile",
        "lag",
        "lead",
        "cume_dist",
        "nth_value",
        "counter_diff",
    ]
)
