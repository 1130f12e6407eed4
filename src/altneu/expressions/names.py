"""Names of functions that are no scalar functions, so that a message can say what they are."""

from __future__ import annotations

AGGREGATES = frozenset(
    ["count", "sum", "avg", "mean", "min", "max", "collect_list", "collect_set", "array_agg", "count_if", "bool_and", "bool_or", "every", "any", "some", "first", "first_value", "last", "last_value", "any_value", "stddev", "stddev_pop", "stddev_samp", "std", "variance", "var_pop", "var_samp", "corr", "covar_pop", "covar_samp", "skewness", "kurtosis", "median", "mode", "percentile", "percentile_approx", "approx_percentile", "approx_count_distinct", "max_by", "min_by", "bit_and", "bit_or", "bit_xor", "product", "grouping", "grouping_id", "regr_count", "regr_slope", "listagg", "string_agg", "histogram_numeric", "try_sum", "try_avg"]
)
WINDOWS = frozenset(["row_number", "rank", "dense_rank", "percent_rank", "ntile", "lag", "lead", "cume_dist", "nth_value"])
