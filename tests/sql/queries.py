"""Queries in what Spark's SQL and ours have in common, over two small tables."""

import random
from decimal import Decimal

TABLES = {
    "t": "a int, b string, x bigint, p decimal(10,2)",
    "u": "a int, y bigint, arr array<int>, m map<string,int>",
}

JOINS = [
    "select t.a, y from t, u where t.a = u.a",
    "select t.a, y from t cross join u where t.a + 1 = u.a and x > 5",
    "select t.a ta, u.a ua, b, y from t left join u on t.a = u.a",
    "select t.a ta, u.a ua, b, y from t left join u on t.a = u.a and y > 5",
    "select t.a ta, u.a ua, b, y from t left join u on t.a = u.a and y > x",
    "select t.a ta, u.a ua, b, y from t left join u on t.x < u.y",
    "select t.a ta, u.a ua, b, y from t right join u on t.a = u.a and t.x > 10",
    "select t.a ta, u.a ua, b, y from t full join u on t.a = u.a",
    "select t.a ta, u.a ua, b, y from t full join u on t.a = u.a and x + y > 20",
    "select * from t join (select a, y from u) using (a)",
    "select * from t left join (select a, y from u) using (a)",
    "select * from t right join (select a, y from u) using (a)",
    "select * from t full join (select a, y from u) using (a)",
    "select * from t natural join (select a, y from u)",
    "select * from t left semi join u on t.a = u.a and t.x > u.y",
    "select * from t left anti join u on t.a = u.a",
    "select * from t left anti join u on t.a = u.a and t.x > u.y",
    "select t.a, t2.b from t join t t2 on t.a <=> t2.a",
    "select t.b, t2.b b2 from t, t t2, u where t.a = t2.a and t2.a = u.a and u.y > 3",
    "select t.b, t2.b b2 from t left join u on t.a = u.a join t t2 on t2.a = u.a where t.x > 5",
    "select t.a from t join u on (t.a = u.a and u.y > 5) or (t.a = u.a and t.x < 20)",
    "select t.a from t join u on t.a = u.a or t.x < u.y",
    "select t.a, u.y from t left join u on t.a = u.a where u.y is null or u.y > 4",
    "select t.x, u.y from t join u on t.x = u.y + 5",
    "select t.x, u.a from t join u on t.x = cast(u.a as string)",
    "select b, s.k from t, lateral (select max(y) k from u where u.a = t.a) s",
    "select b, s.y from t left join lateral (select y from u where u.a = t.a and u.y > 5) s on true",
    "select b, s.y from t, lateral (select y from u where u.a = t.a order by y desc limit 1) s",
    "select b, s.n from t, lateral (select count(*) n from u where u.y < t.x) s",
]
GROUPS = [
    "select a, count(*) n, sum(x) s, avg(x) m, min(b), max(b), sum(p) from t group by a",
    "select sum(x), count(*), max(b), avg(p) from t",
    "select sum(x), count(*) from t where 1 = 0",
    "select count(*) from t having count(*) > 100",
    "select a + 1 k, count(distinct b) from t group by a + 1",
    "select a % 2 k, sum(x) + count(*) from t group by 1 having sum(x) > 10",
    "select a as k, count(*) filter (where x > 10) n from t group by k",
    "select upper(b) || '!' as k, max(x) - min(x) from t group by upper(b)",
    "select a, b, count(*) from t group by all",
    "select a, b, count(*) n, sum(x) s, grouping(b) g, grouping_id() i from t group by rollup (a, b)",
    "select a, b, max(a) m from t group by cube (a, b)",
    "select a, b, count(*) n from t group by grouping sets ((a, b), (b), ())",
    "select a % 2 k, b, count(*) n from t group by grouping sets (a % 2, (a % 2, b)) having count(*) > 1",
    "select a, b, x, count(*) n from t group by a, rollup (b, x)",
    "select a, sum(x) s, rank() over (order by sum(x)) r from t group by rollup (a)",
    "select count(*), a % 2 as parity from t group by parity having parity = 1",
    "select distinct a, b from t",
    "select distinct a % 2 from t where a is not null",
    "select count(*) n, u.y from t join u on t.a = u.a group by u.y",
    "select n, count(*) from (select a, count(*) n from t group by a) group by n",
    "select case when a > 1 then 'b' else 's' end k, count(*) from t group by case when a > 1 then 'b' else 's' end",
    "select count(distinct (a, b)) d, count((a, b)) n from t",
    "select count(*) n from t group by grouping sets ((a, (a, b)), a)",
    "select count(*) n, sum(x) s from t where a > 100 group by grouping sets (())",
    "select count(*) n from t where a > 100 group by grouping sets ((), ())",
    "select sum(timestamp_seconds(x)) s, avg(timestamp_seconds(a)) m from t",
    "from t |> aggregate sum(x) s group by 2, 1",
    "from t |> extend a % 2 as k |> aggregate group by 5",
]
SUBQUERIES = [
    "select * from t where exists (select 1 from u where u.a = t.a)",
    "select * from t where exists (select 1 from u)",
    "select * from t where not exists (select 1 from u where u.a = t.a and y < x)",
    "select * from t where exists (select * from u where u.a = t.a and u.y <> t.x)",
    "select * from t where a in (select a from u)",
    "select * from t where a in (select a from u where u.y > t.x)",
    "select * from t where (a, x) in (select a, y from u)",
    "select * from t where a not in (select a from u where a is not null)",
    "select * from t where a not in (select a from u)",
    "select * from t where x not in (select y from u where u.a = t.a)",
    "select * from t where a is null or a not in (select a from u where y < 8)",
    "select b, (select max(y) from u where u.a = t.a) m from t",
    "select b, (select count(*) from u where u.a = t.a) m from t",
    "select b, (select count(*) + coalesce(sum(y), 0) from u where u.a = t.a) m from t",
    "select b, (select max(y) from u) m, (select count(*) from t) n from t",
    "select b from t where x > (select avg(y) from u)",
    "select b from t where x = (select max(x) from t t2 where t2.a = t.a)",
    "select b from t where (select count(*) from u where u.a = t.a) = 0",
    "select b, x > 10 or exists (select 1 from u where u.a = t.a) z from t",
    "select b from t where a > 1 or a in (select a from u where y > 6)",
    "select a, sum(x) s from t group by a having sum(x) > (select max(y) from u)",
    "select b, n from t, lateral (select count(*) n from u where u.a = t.a union all select t.x) s",
    "select a, sum(x) s from t group by a having exists (select 1 from u where u.a = t.a)",
    "select b from t where exists (select 1 from u where u.a = t.a and exists (select 1 from t t2 where t2.x > u.y))",
    "select b from t where x in (select max(x) from t t2 where t2.a = t.a)",
    "select b from t where not exists (select 1 from u where u.a = t.a group by u.a having count(*) > 1)",
    "select b, (select count(*) from u where u.a = t.a limit 1) n from t",
    "select b, (select count(*) from u where cast(u.a as bigint) = t.a) n from t",
    "select b, (select max(y) from u where u.a = t.a having count(*) > 1) n from t",
    "select a, b, y from t full join (select a, y from u) using (a) full join (select a, x z from t) using (a)",
    "select * from t left semi join u using (a)",
    "select a, (select max(y) from u) in (select x from t) i from t",
    "select a from t where (select max(y) from u where u.a = t.a) not in (select x from t where x is not null)",
    "select a, x, (select count(*) from u where u.a = t.a having count(*) = 0) n from t",
    "select a, x, (select count(*) from u where u.y < t.x having count(*) < 2) n from t",
    "select x, n from t, lateral (select count(*) n from u where u.a = t.a union select max(y) from u where y > x)",
    "select t.a, s.n from t, lateral (select count(*) n from u where u.y < t.x except select 0L) s",
    "select t.a, s.* from t, lateral (select count(*) n, sum(count(*)) over () w from u where u.y < t.x) s",
    "select a % 2 j, sum(x) s from t group by j having sum(x) > (select count(*) from u where y > j)",
    "select a, sum(x) s from t group by a having exists (select 1 from u where y < s)",
]
REST = [
    "select a from t union all select a from u",
    "select a, x from t union select a, y from u",
    "select a from t except select a from u",
    "select a from t except all select a from u",
    "select a from t intersect select a from u",
    "select a from t intersect all select a from u",
    "select a, 'x' k from t union all select y, b from (select y, 'y' b from u)",
    "select distinct b from t order by b limit 2",
    "select a, x from t order by x desc nulls last, a limit 2 offset 1",
    "select a, sum(x) s from t group by a order by sum(x) desc, a limit 2",
    "select b, x from t order by 2, 1 limit 3",
    "select x + 1 from t where a = 1 order by 1 limit 1",
    "select distinct x % 7 from t limit 100",
    "select b as a from t order by a desc limit 3",
    "select x y from t order by t.x + a, y limit 2",
    "select * from (values (1, 'a'), (2, null), (3, 'c')) as v(k, l) where k > 1",
    "select v.l, t.b from t join (values (1, 1.5), (2, 2)) as v(k, l) on t.a = v.k",
    "with c as (select a from t where x > 5), d as (select count(*) n from c) select c.a, d.n from c, d",
    "with c(k) as (select a from t) select k, count(*) from c group by k",
    "with c as (select a from t) select c1.a from c c1 join c c2 on c1.a = c2.a",
    "select a, c from u lateral view outer explode(arr) e as c",
    "select a, k, v from u lateral view explode(m) e as k, v",
    "select a, explode(arr) as k from u",
    "select a, posexplode(arr) from u",
    "select a, json_tuple(concat('{\"x\":', y, ',\"z\":[1, 2]}'), 'x', 'z', 'w') as (x, z, w) from u",
    "select a, j.p from u lateral view json_tuple(concat('{\"x\":', y, '}'), 'x') j as p",
    "select a, stack(2, a, 'x', y, b) as (n, s) from (select t.a, b, cast(x as int) y from t)",
    "select a, e.c from u, lateral explode(arr) as e(c) where e.c > 1",
    "select 1 + 1 as two, 'x' as x",
    "select t.*, u.y from t, u where t.a = u.a",
    "select * except (b, p) from t",
    "with recursive r(n) as (select 1 union all select n + 1 from r where n < 5) select * from r",
    "with recursive r as (select a n from t where a > 0 union all select n + 1 from r where n < 4) select * from r",
    "select * from t where x between 5 and 25 and b like '%q%' or a in (1, 3)",
    "select coalesce(b, '-') c, p * 2 q, x / 4 r, cast(x as string) s from t",
    "select id from range(3)",
    "select * from (select x, a, b, p from t where x is not null order by x desc, a, b, p) limit 3",
    "select a + 1 k from (select * from (select a, x from t order by x, a)) where a > 0 limit 2 offset 1",
    "with q as (select x, a, b, p from t where x > 2 order by x desc, a, b, p) select * from q limit 2",
    "select * from (select a, x, b, p from t order by x desc, a, b, p limit 7 offset 1) where a > 1 limit 2",
    "with r as (select a from t), q(k) as (select a from r order by a) select k + 1 j from q limit 3",
    "select transform(arr, 0) z, filter(arr, a > 1) f, exists(arr, false) e, aggregate(arr, 0, a) g from u",
    "select aggregate(arr, (0 as s, 0 as n), (m, v) -> (m.s + v, m.n + 1), m -> m.s - m.n) s from u",
]
IN_VALUES = {
    "select b, a in (select a from u) z from t": lambda _: True,
    "select b, a in (select a from u where a is not null) z from t": lambda a: a is not None,
    "select b, a in (select a from u where a > 100) z from t": lambda _: False,
}
"""Queries with IN as a value; each with which keys are in the set."""
WINDOWS = [
    "select a, x, sum(x) over (partition by a) s, count(*) over () n from t",
    "select a, x, rank() over (partition by a order by x) r, dense_rank() over (order by x desc nulls last) d from t",
    "select a, x, sum(x) over w s, avg(p) over w m from t window w as (partition by a order by x, b, p)",
    "select distinct a, b, x, row_number() over (order by a, b, x, p) > 2 z from t where p is null and a = 1",
    "select a, b, lag(x) over (partition by b order by x, a, p) l, min(x) over (order by a, x) f from t",
    "select a, sum(x) s, rank() over (order by sum(x) desc) r from t group by a",
    "select a, sum(sum(x)) over () s from t group by a",
    "select a, x from t qualify rank() over (partition by a order by x desc) = 1",
    "select a, x, rank() over (order by x) r from t qualify r < 3",
    "select * from (select *, dense_rank() over (partition by a order by x desc) r from t) where r <= 2",
    "select a, r, s from (select *, rank() over (order by b) r, sum(x) over (order by b) s from t) where r in (1, 3)",
    "select a from (select a, rank() over (partition by b order by x) r from t) where 2 > r and r > 0",
    "select a, x from (select a, x, rank() over (order by x) r from t) where r <= 0 or r <= null",
    "select b, s.r from t, lateral (select rank() over (order by y) r from u where u.a = t.a) s",
    "select max(r) m, a from (select a, rank() over (partition by a order by x) r from t) group by a",
    "select a, x, counter_diff(x) over (partition by a order by p, x) d from t where x >= 0 and p is not null",
    (
        "select b, x, counter_diff(x, cast('2020-01-01' as timestamp) + make_dt_interval(0, 0, cast(x div 9 as int))) "
        "over (partition by b order by x) d from t where x >= 0"
    ),
]
COLLATED = [
    "select t.b, s.b c from t join (select upper(b) b from t) s on t.b collate UTF8_LCASE = s.b",
    (
        "select t.a, s.b c from t left join (select a, b || ' ' b from t) s on t.a = s.a and "
        "t.b = s.b collate UTF8_BINARY_RTRIM"
    ),
    "select count(*) n, min(x) m from (select x, if(a > 2, upper(b), b) b from t) group by b collate UTF8_LCASE",
    "select a, count(distinct (if(x > 10, upper(b), b)) collate UTF8_LCASE) n from t group by a",
    "select b, x, count(*) over (partition by b collate UTF8_LCASE) n from (select x, if(a > 2, upper(b), b) b from t)",
    "select b, rank() over (order by b collate UTF8_LCASE desc) r from (select if(a > 2, upper(b), b) b from t)",
    "select b, a from (select a, if(a > 2, upper(b), b) b from t) order by b collate UTF8_LCASE, b, a limit 5",
    "select b from t where b collate UTF8_LCASE in ('P', 'QQ') or upper(b) collate UTF8_LCASE < 'q'",
    "select b, x from t where b collate UTF8_LCASE in (select upper(b) from t where x > 10)",
    *(
        f"select {shown} from (select a, x, if(a > 2, upper(b), b) b from t)"
        for shown in (
            "b, rank() over (partition by a order by reverse(b collate UNICODE_CI)) r",
            "b, x, count(*) over (partition by left(b collate UTF8_LCASE, 1)) n",
        )
    ),
    "select b, a from (select a, if(a > 2, upper(b), b) b from t) order by left(b collate UTF8_LCASE, 3), b, a limit 5",
    "select a, count(distinct left(if(x > 10, upper(b), b) collate UTF8_LCASE, 1)) n from t group by a",
    "select b, x from t where coalesce(b collate UTF8_LCASE, '') = (select max(upper(b)) from t)",
    "select t.b, s.b c from t join (select upper(b) b from t) s on t.b collate UNICODE_CI = s.b",
    "select count(*) n, min(x) m from (select x, if(a > 2, upper(b), b) b from t) group by b collate de_CI_AI",
    "select a, count(distinct (if(x > 10, upper(b), b)) collate UNICODE_CI) n from t group by a",
    "select b, rank() over (order by b collate sv desc) r from (select if(a > 2, upper(b), b) b from t)",
    "select b, a from (select a, if(a > 2, upper(b), b) b from t) order by b collate UNICODE, b, a limit 5",
    "select b, x from t where b collate UNICODE_CI_AI in (select upper(b) from t where x > 10) or b < 'q' collate fr",
    "select b, x from t where b collate UTF8_LCASE not in (select upper(b) from t s where s.x > t.x and b is not null)",
]
TIMES = [
    f"select {key} unix_seconds(session_window.end) z, count(*) n, sum(a) s from (select a, b, "
    f"timestamp_seconds(x) at from t) group by {key} session_window(at, '{gap}')"
    for key, gap in (("", "2 seconds"), ("b,", "5 seconds"), ("a % 2,", "1 month"), ("b,", "-1 second"))
]
TIMES += [
    "select time_from_seconds(x * 60) t, count(*) n, min(a) m from t group by time_from_seconds(x * 60)",
    (
        "select a, min(t) lo, max(t) hi, count(distinct t) n, max_by(b, t) m from (select a, b, "
        "make_time(a, cast(x as int), p) t from t) group by a"
    ),
    "select t.a, u.y from t join u on make_time(0, 0, cast(x as int)) = make_time(0, 0, cast(y as int))",
    "select distinct time_trunc('minute', t) m, t + interval 1 hour h from (select time_from_seconds(x + p) t from t)",
    (
        "select a, t, rank() over (order by t desc nulls last) r, lag(t) over (partition by a order by t) l from "
        "(select a, make_time(a, cast(x as int), 0) t from t)"
    ),
    "select make_time(a, cast(x as int), 0) t, a, x from t order by make_time(a, cast(x as int), 0) desc, a, x limit 3",
    "select t from (select make_time(a, cast(x as int), p) t from t) where t > '1:10' and t - '1:00' < interval 3 hour",
    "select b, session_window(timestamp_seconds(x), '1 second').end > '1970-01-01 00:00:11' w from t",
    (
        "select cast(window_time(w) as string) z, n from (select session_window w, count(*) n from (select "
        "timestamp_seconds(x) at from t) group by session_window(at, '3 seconds'))"
    ),
    (
        "select cast(window_time(window) as string) z, n from (select window, count(*) n from t group by "
        "window(timestamp_seconds(x), '10 seconds'))"
    ),
]
TIMES += [
    (
        "select cast(w.start as string) s, cast(w.end as string) e, typeof(w.start) k, n from (select window w, "
        "count(*) n from (select cast(timestamp_seconds(x) as timestamp_ntz) at from t) "
        f"group by window(at, '10 seconds'{slide}))"
    )
    for slide in ("", ", '4 seconds'")
]
TIMES += [
    (
        "select cast(w.start as string) s, cast(w.end as string) e, typeof(w.end) k, n from (select session_window w, "
        "count(*) n from (select cast(timestamp_seconds(x) as timestamp_ntz) at from t) "
        "group by session_window(at, '3 seconds'))"
    ),
]
AROUND = [
    "select a, x, (select count(*) from t s right join u on s.a = u.a and s.x > t.x) n from t",
    (
        "select a, x from t where exists (select 1 from t s right join u on s.a = u.a and s.x > t.x "
        "where s.a is null and u.a = t.a)"
    ),
    (
        "select a, x, q.* from t, lateral (select s.b, u.y from t s right join u on t.x = u.y "
        "left join u v on v.a = t.a) q"
    ),
    (
        "select a, x from t where a not in (select u.a from t s right join u on s.a = u.a and s.x > t.x "
        "where s.x is null and u.a > 1)"
    ),
    (
        "select a, x, (select max(z.y) from u full join (select a, y from u) z using (a) "
        "right join t s on s.a = t.a) n from t"
    ),
]
CLAUSES = [
    "select t.a, x, y from t left join u on t.a = u.a and u.y > (select min(y) from u)",
    "select t.a, x, y from t left join u on t.a = u.a and t.x in (select y from u)",
    "select t.a, x, y from t left join u on t.a = u.a and u.y in (select x from t) and t.x in (select y from u)",
    "select t.a, x, y from t left join u on t.a = u.a and (u.y in (select x from t where x > 5) or t.x > 10)",
    "select t.a, x, y from t left join u on exists (select 1 from t where x > 20)",
    "select t.a, x, y from t left join u on t.a = u.a and exists (select 1 from t s where s.a = t.a and s.x > 5)",
    "select t.a, x, y from t right join u on t.a = u.a and t.x in (select y from u)",
    "select t.a, x, y from t full join u on t.a = u.a and (t.x in (select y from u) or u.y in (select x from t))",
    "select t.a, t.x from t left semi join u on t.a = u.a and u.y in (select x from t)",
    "select t.a, t.x from t left anti join u on t.a = u.a and t.x in (select y from u)",
    "select a, (with c as (select y from u where u.a = t.a), d as (select max(y) m from c) select m from d) m from t",
    "select * from t where x in (with c(z) as (select y from u where u.a = t.a) select z from c union select 5)",
    "select t.a, s.m from t, lateral (with u as (select y from u where u.a = t.a) select max(y) m from u) s",
    "select a, b from t union all select a, 'z' from u order by all limit 4",
    "select a, b, x, p from t order by a, b, x, p limit 1 + 1 offset length('a')",
    "select a, s.y from t, lateral (select y from u where u.a = t.a order by y limit 3 - 2) s",
    "select t.a, s.n from t left join lateral (select count(*) n from u where u.a = t.a) s on s.n > 1",
    "select t.a, s.m from t left join lateral (select max(y) m from u where u.a = t.a) s on s.m > t.x",
    "select u.a, e.c from u left join lateral explode(arr) as e(c) on e.c > u.a",
    "select x, r from (select x, named_struct('q', a) as st, st.q + 1 as r from t)",
    "select * from (select a, b, x from t) pivot (sum(x) for b in ('p', 'q', null as n))",
    "select * from (select a, b, x from t) pivot (sum(x) as s, count(*) as n for b in ('p' as pp, 'zz'))",
    "select * from (select a, b, x from t) pivot (max(b) as m, count(*) n for x in (5, 10, 77))",
    "select pv.* from (select b, x, p from t) pivot (sum(x) + 1 for (b, p) in (('p', 1.50) as one, ('q', 2.25))) pv",
    "select * from (select b, x from t) pivot (sum(x) for b in ('p', 'q')) unpivot include nulls (v for n in (p, q))",
    "select * from (select a, x, p from t) unpivot (v for n in (x, p as `the p`))",
    "select r.n, sum(r.v) s from (select x, x + a y from t) unpivot ((v, w) for n in ((x, y), (y, x))) r group by r.n",
    "select a, b, count(*) n, grouping_id() i from t group by a, b with rollup",
    "select a % 2 k, b, sum(x) s from t group by 1, b with cube",
    "select a, b, count(*) n, grouping_id() i from t group by a, b grouping sets ((b), (a, b))",
    "select to_json(struct(*)) i, to_json(struct(t.* except (p))) j from t",
    "select k, m from (select s.*, s.l.* from (select named_struct('k', a, 'l', named_struct('m', b)) s from t))",
    "select to_json((a, x)) r, coalesce(*) c from (select a, x from t where b is null)",
    "with recursive r(n) max recursion level 5 as (select 1 union all select n + 1 from r where n < 5) select * from r",
    "from t |> where a > 1 |> left join u on t.a = u.a |> select t.a, u.y",
    "from t |> extend x + 1 as y, y * 2 as z |> drop b, p |> set x = x + z, y = x",
    "from t |> where x > 5 |> aggregate sum(x) as s, count(*) n group by a + 1 as k, b |> where s > 10",
    "from t |> select distinct a |> as q |> join u as v on q.a = v.a |> select q.a, v.y",
    "from t |> select a, x |> union all (select a, y from u) |> except (select 1, 5L) |> order by a, x |> limit 3",
    "from t |> select a, x, row_number() over w as r window w as (partition by a order by x, b, p) |> where r = 1",
    "from t |> select a, b, x |> pivot (sum(x) for b in ('p', 'q')) |> unpivot (v for n in (p, q))",
    "values (1, 'a'), (2, 'b') |> select col1 as k |> aggregate max(k) as m",
]
_KINDS = (
    "parse_json('null')",
    "parse_json('1')",
    "parse_json('1.25')",
    "parse_json('0.12345678901234567890123456789')",
    "parse_json('12345678901234567890123456789.5')",
    "parse_json('1e3')",
    "parse_json('true')",
    "parse_json('\"x\"')",
    "parse_json('[1]')",
    "parse_json('[\"x\"]')",
    "parse_json('{\"a\":1}')",
    'parse_json(\'{"b":[],"a":"x"}\')',
    "cast(1.5f as variant)",
    "cast(date '2020-01-01' as variant)",
    "cast(timestamp '2020-01-01 00:00:00' as variant)",
    "cast(timestamp_ntz '2020-01-01 00:00:00' as variant)",
    "cast(x'00' as variant)",
)
_PAIRS = ", ".join(f"({place}, {value})" for place, value in enumerate(_KINDS))
VARIANTS = [
    (
        "select a.i, b.i j, schema_of_variant(cast(array(a.v, b.v) as variant)) s "
        f"from (values {_PAIRS}) a(i, v), (values {_PAIRS}) b(i, v)"
    ),
    (
        "select a, v:k::string k, cast(v:n as string) n from "
        "(select a, parse_json(to_json(named_struct('k', b, 'n', x))) v from t)"
    ),
    (
        "select v:k::string k, count(v:n) n, sum(v:n::int) s, schema_of_variant_agg(v) z from "
        "(select to_variant_object(named_struct('k', b, 'n', p)) v from t) group by v:k::string"
    ),
    "select u.a, e.pos, e.key, cast(e.value as string) c from u, lateral variant_explode(cast(arr as variant)) e",
    "select a, p, to_json(w) j from u, lateral variant_explode_outer(to_variant_object(m)) e(p, k, w)",
    (
        "select k, w::string v, count(*) n from u, lateral variant_explode(to_variant_object(m)) e(p, k, w) "
        "group by k, w::string"
    ),
    "select x, y from t join (select y, to_variant_object(m) v from u) s on t.a = s.v:k::int",
    "select schema_of_variant_agg(variant_get(to_variant_object(m), '$.l')) from u",
    (
        "select a, v::string c from "
        "(select a, cast(x as variant) v from t union all select a, to_variant_object(m) from u)"
    ),
    (
        "select a, to_json(variant_set(to_variant_object(m), '$.new[1]', y)) j, is_variant_null(cast(y as variant)) n "
        "from u"
    ),
    'select pos, key, to_json(value) v from variant_explode(parse_json(\'{"b": true, "a": [3.14]}\'))',
]
ALL = [*JOINS, *GROUPS, *SUBQUERIES, *REST, *WINDOWS, *TIMES, *COLLATED, *VARIANTS, *CLAUSES, *AROUND]


def rows(name, rng, count):
    """Random rows of a table, with nulls, duplicates and keys of which some meet."""
    result = []
    for _ in range(count):
        key = rng.choice([None, 1, 1, 2, 2, 3, 4, 5])
        if name == "t":
            b, x = rng.choice([None, "p", "q", "qq"]), rng.choice([None, 5, 10, 20, 30])
            result.append((key, b, x, rng.choice([None, Decimal("1.50"), Decimal("2.25")])))
        else:
            arr = rng.choice([None, [], [1], [1, 2], [3, None]])
            result.append(
                (key, rng.choice([None, 3, 5, 8, 20]), arr, rng.choice([None, {}, {"k": 1}, {"k": 2, "l": 3}]))
            )
    return result


def steps(seed, count):
    """Changes, step by step, as (table, rows that come, rows that go)."""
    rng = random.Random(seed)
    there = {name: [] for name in TABLES}
    result = []
    for step in range(count):
        changes = []
        for name, now in there.items():
            gone = rng.sample(now, len(now) // 3)
            for row in gone:
                now.remove(row)
            came = rows(name, rng, 8 if step == 0 else 3)
            now.extend(came)
            changes.append((name, came, gone))
        result.append((changes, {name: list(now) for name, now in there.items()}))
    return result
