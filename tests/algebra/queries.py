# ruff: noqa: E501
"""Queries over the small relations of `data`: every construct that the binder knows, with NULLs and duplicates."""

PLAIN = """
select * from t
select t.*, k + 1 as k1 from t where v > 10 or s is null
select K, V as Value from t X where x.S = 'x'
select `k` as `a b`, `s` as `select` from t
select x.k from t as x where x.v between 5 and 20
select a.b from (select k as b from t) a where a.b is not null
select c1, c2 from (select k, v from t) a(c1, c2) where c1 = 1
select k + v as x, x * 2 as y, y - x as z from t
select * except (s, p) from t
select t.* except (k) from t
select 1 as one
select 1 as one, 'a' as two, null as three
select 1 as x union all select 2
select * from (values (1, 'a'), (2, 'b'), (null, null)) as v(x, y)
select y from (values (1, 'a'), (2, 'b')) as v(x, y) where x > 1
values (1, 'a'), (2, 'b')
select case when k = 1 then 'one' when k is null then 'none' else s end as c from t
select coalesce(s, 'none') as s, nullif(k, 1) as n, if(v > 10, 'big', 'small') as b from t
select k, p * 2 as p2, p + k as pk, -v as m, v % 3 as r, v / 4 as q from t
select date_add(dt, 3) as later, year(dt) as y, dt > date '2024-01-02' as after, extract(month from dt) as m from t
select k from t where s like 'x%' or s in ('y', 'z') or not (v < 10)
select upper(s) || '!' as u, length(s) as l, substring(s, 1, 1) as f, concat(s, s) as d from t
select cast(k as string) as ks, cast(v as double) as vd, cast('7' as int) as seven, k::bigint as kb from t
select st.f, n.st.g, st from n
select id, get(a, 0) as first, size(a) as n, a[1] as second from n where id = 1
select id from n where st.f > 5
select id, st.* from n
select id, transform(a, x -> x + id) as plus, exists(a, x -> x = 2) as two from n
select distinct k from t
select distinct k, s from t where v is not null
select distinct * from u
select k from t where true
select k from t where false
select k from t order by k
select k, v from t order by v desc, k limit 3
select k, v from t order by 2 desc nulls first, 1 limit 4
select k, v, s from t order by v, k, s limit 3 offset 2
select s from t order by v desc, k limit 3
select k + v as kv, s from t order by kv, s limit 4
select k, count(*) as n from t group by k order by n desc, k limit 2
select k from t group by k order by sum(v) desc nulls last, k limit 2
select distinct k from t order by k desc limit 2
select * from (select k, v from t order by v, k limit 4) where k = 1
select k from t limit 100
select k from t limit 0
select k, v from t order by v, k offset 4
(select k from t) union all (select k from u order by k limit 2)
select k as x, k as y from t
select a.k, b.k from t a join t b on a.k = b.k
select id from range(5)
""".strip().splitlines()

JOINS = """
select t.k, w from t join u on t.k = u.k
select t.k, w from t inner join u on t.k = u.k and v < w
select t.k, w from t, u where t.k = u.k and w > 50
select * from t, u where t.k = u.k and t.s = u.s
select t.k, u.k from t cross join u where t.v > u.w
select t.k, u.k from t join u on t.v > u.w
select t.k, u.w from t join u on t.k + 1 = u.k
select t.k, u.w from t, u where t.k * 2 = u.k + 1
select * from t left join u on t.k = u.k
select * from t left join u on t.k = u.k and t.v > 10
select * from t left join u on t.k = u.k and u.w > 50
select * from t left join u on t.k = u.k and t.v < u.w
select * from t left join u on t.k = u.k where u.w is null
select * from t left join u on t.k = u.k where u.w > 10
select * from t left join u on t.k = u.k where t.v > 10
select t.k, u.s from t left join u on t.v < u.w and u.w < 30
select * from t right join u on t.k = u.k
select * from t right join u on t.k = u.k and t.v > 10 where u.w < 300
select * from t full join u on t.k = u.k
select * from t full outer join u on t.k = u.k and t.v > 10
select * from t full join u on t.k = u.k where t.v > 5
select * from t full join u on t.k = u.k where coalesce(t.k, u.k) = 2
select * from t left semi join u on t.k = u.k
select * from t left semi join u on t.k = u.k and t.v < u.w
select * from t left anti join u on t.k = u.k
select * from t left anti join u on t.k = u.k and u.w > 50
select * from t left anti join u on t.v < u.w
select * from t left anti join e on t.k = e.k
select * from t left join e on t.k = e.k
select * from t join u using (k)
select k, v, w from t left join u using (k)
select k, v, w from t right join u using (k)
select k, v, w from t full join u using (k)
select * from t full join u using (k, s)
select t.k, u.k, k from t join u using (k)
select t.k, k, u.w from t full join u using (k)
select k, v from t left semi join u using (k)
select * from t natural join u
select k, s, w from t natural left join u
select * from t natural full join u
select t.k, b.g from t join b on t.k = b.k
select t.k, b.g from t, b where b.k = t.k and g = 'a'
select t.k, b.n from t join b on t.k = b.n
select t.p, u.q from t join u on t.p = u.q
select t.p, b.k from t left join b on t.p = b.k
select t.k, u.k from t join u on t.k <=> u.k
select t.k, u.k from t left join u on t.s <=> u.s and t.v = 10
select a.k, b.k, c.k from t a, u b, b c where a.k = b.k and b.k = c.k and a.v > 5
select a.k, c.g from t a, b c, u b where a.k = b.k and b.k = c.k
select count(*) from t a, t b, t c where a.k = b.k and b.v = c.v
select a.v, b.v from t a join t b on a.k = b.k and a.v < b.v
select * from t join u on t.k = u.k left join b on u.k = b.k
select * from t left join (u join b on u.k = b.k) on t.k = u.k
select j.v, j.w from (select t.v, u.w from t join u on t.k = u.k) j where j.w > 10
select t.k, u.w from t join u on (t.k = u.k and t.v = 10) or (t.k = u.k and u.w > 100)
select t.k, u.w from t, u where (t.k = 1 and u.w = 100 and t.s = u.s) or (t.k = 2 and u.w = 200 and t.s = u.s)
select t.k, u.w from t, u where (t.k = 1 and u.w = 100) or (t.k = 2 and u.w = 200)
select t.k, x.k from t join (select distinct k from u) x on t.k = x.k where x.k = 2
select t.k, x.n from t left join (select k, count(*) as n from u group by k) x on t.k = x.k where x.k > 1
select t.dt, x.ts from t join (select timestamp '2024-01-01 00:00:00' as ts) x on t.dt = x.ts
select t.k + u.w as a, t.v * t.k as b from t join u on t.k = u.k
select t.k from t join u on t.k = u.k and t.k = 1
select t.k, u.w from t join u on true
select t.k from t, e
select t.k, v.x from t join (values (1, 'one'), (2, 'two')) as v(k, x) on t.k = v.k
""".strip().splitlines()

GROUPS = """
select k, count(*), sum(v), avg(v), min(s), max(p) from t group by k
select count(*), count(v), sum(v), min(s) from t
select count(*), sum(x), max(x) from e
select k, count(*) from e group by k
select k + 1 as x, count(*) from t group by k + 1
select k + 1 as x, count(*) from t group by x
select k, s, count(*) from t group by 1, 2
select k, s, count(*) from t group by all
select sum(v) from t group by k
select k, sum(v) + count(*) as n from t group by k having count(*) > 1
select k, sum(v) as total from t group by k having total > 10
select k, sum(v) as v from t group by k having sum(v) > 10
select k from t group by k having max(v) is null
select k, sum(v) as v from t group by k having v > 10
select s as k, count(*) as v from t group by s having k = 'x' and v > 1
select k, (select 5) as five from t
select a.k, b.w, c.g from t a join u b using (k) join b c using (k)
select * from t left join u on t.k = u.k where not (5 between u.w and 3)
select k from t where k in (1, (select max(k) from u))
select x.k from (((select k from t))) x
select k, count(distinct s) from t group by k
select count(distinct k, s) from t
select k, count(distinct s), count(distinct v) from t group by k
select k, count(distinct s), sum(distinct v), count(*) from t group by k
select k, sum(distinct v), avg(distinct v) from t group by k
select k, count(*) filter (where v > 10) as big, sum(v) filter (where s = 'x') as xs from t group by k
select count(distinct s) filter (where v > 5) from t
select max(v) - min(v) as spread from t
select k * 2 as d, sum(v * 2) as s2 from t group by k
select case when k > 1 then 'big' else 'small' end as size, count(*) from t group by case when k > 1 then 'big' else 'small' end
select 1 as one, count(*) from t group by one
select 'a' as lit, k, count(*) from t group by k
select max(v) from t having count(*) > 3
select max(v) from t having count(*) > 300
select k, bool_or(v > 10), bool_and(v > 0), count_if(v > 10) from t group by k
select k, stddev(v), variance(v) from t where k is not null group by k
select max(s), min(dt), max(dt) from t group by k, p
select k, percentile(v, 0.5) as med from t group by k
select k, max_by(s, v) as m, min_by(s, v) as n from t where k in (3, 4, 5) group by k
select t.k, sum(u.w) from t left join u on t.k = u.k group by t.k
select x.k, sum(x.n) from (select k, s, count(*) as n from t group by k, s) x group by x.k
select k, s, count(*), grouping(k), grouping(s), grouping_id() from t group by rollup (k, s)
select k, s, sum(v) from t group by cube (k, s)
select k, s, sum(v), grouping_id(k, s) as g from t group by grouping sets ((k), (s), (k, s), ())
select k, s, count(*) from t group by grouping sets ((k, s), (k))
select k, s, count(*) from t group by k, s with rollup
select k, s, count(*) from t group by k, s with cube
select k, s, dt, count(*) from t group by k, rollup (s, dt)
select k, sum(k) from t group by rollup (k)
select s, k, count(*) from t group by rollup (s, k) having grouping_id() = 1
select k + 1 as x, grouping(k + 1) as g, count(*) from t group by rollup (k + 1)
select k, sum(v) as total from t group by cube (k) having sum(v) > 20
select distinct count(*) from t group by k
select count(*) from (select distinct k, s from t)
select sum(a) from (select k as a from t union all select w from u)
select k, count(*) from (select k from t union select k from u) group by k
select k, sum(v) over_all from t group by k
select array_size(collect_set(k)) from t
select k, sort_array(collect_list(v)) from t group by k
select sum(v + k) , sum(v) + sum(k) from t
select s, sum(case when k = 1 then v else 0 end) as ones from t group by s
""".strip().splitlines()

WINDOWS = """
select k, v, row_number() over (partition by k order by v, s, p) as r from t
select k, v, sum(v) over (partition by k) as total from t
select k, v, sum(v) over (order by v, k, s) as running from t where v is not null
select k, v, rank() over (order by v) as r, dense_rank() over (order by v) as d from t
select k, v, lag(v) over (partition by k order by v, s) as before, lead(v, 2, 0) over (partition by k order by v, s) as after from t
select k, avg(v) over w as a, max(v) over w as m from t window w as (partition by k)
select k, v, sum(v) over (partition by k order by v rows between unbounded preceding and current row) as s from t
select k, v, count(*) over (partition by s order by k, v rows between 1 preceding and 1 following) as c from t
select k, sum(v) as total, rank() over (order by sum(v) desc) as r from t group by k
select k, sum(sum(v)) over () as all_v from t group by k
select k, sum(v) * 100 / sum(sum(v)) over () as share from t where k is not null group by k
select * from (select k, v, row_number() over (partition by k order by v, s, p) as r from t) where r = 1
select * from (select k, v, row_number() over (partition by k order by v, s, p) as r from t) where k = 1
select k, v from t qualify row_number() over (partition by k order by v, s, p) = 1
select k, v, row_number() over (partition by k order by v, s, p) as r from t qualify r = 1
select k, first_value(v) over (partition by k order by v, s) as f, last_value(v) over (partition by k order by v, s rows between unbounded preceding and unbounded following) as l from t
select k, ntile(2) over (order by k, v, s, p) as half from t
select k + 1 as x, max(v + 1) over (partition by k + 1) as m from t
select count(*) over () as n, k from t where v > 10
select k, sum(v) over (partition by k, s) as a, sum(v) over (partition by s) as b from t
select k, count(*) over (partition by k) + 1 as c from t order by c desc, k limit 3
select distinct k, count(*) over (partition by k) as c from t
select k, sum(v) over (partition by k order by v range between 1 preceding and current row) as s from t where v is not null
""".strip().splitlines()

SETS = """
select k from t union select k from u
select k from t union all select k from u
select k, s from t union select k, s from u union select k, g from b
select k from t union all select k from u union select k from b
select k from t union select k from u union all select k from b
select k from t except select k from u
select k from t except all select k from u
select k from t intersect select k from u
select k from t intersect all select k from u
select k, s from t minus select k, s from u
select k from t union all select k from b
select k, p from t union all select w, q from u
select k, null as x from t union all select w, s from u
select v as x from t union all select k + 1 from u
select * from (select k from t union all select k from u) x where k = 2
select * from (select k, count(*) as n from t group by k union select k, w from u) where n > 1
select k from t intersect (select k from u except select k from b)
select k from t except select k from u order by k limit 2
select k, s from t where k = 1 union all select k, s from t where k = 1
select k, k from t union select w, w from u
""".strip().splitlines()

GENERATORS = """
select id, x from n lateral view explode(a) l as x
select id, x from n lateral view outer explode(a) l as x
select id, p, x from n lateral view posexplode(a) l as p, x
select id, x, y from n lateral view explode(a) l as x lateral view explode(array(x, 1)) m as y
select id, explode(a) as x from n
select id, explode_outer(a) as x from n
select id, posexplode(a) as (p, x) from n
select id, x from n lateral view explode(a) l as x where x = 2 and id = 1
select x, count(*) from n lateral view explode(a) l as x group by x
select k, y from t lateral view stack(2, k, v) l as y
select id, f, g from n lateral view inline(array(st)) l as f, g
select id, inline(array(st)) from n
select id, l.* from n lateral view inline(array(st)) l
select id, l.* from n lateral view posexplode(a) l
select t.k, l.x from t lateral view explode(array(k, v)) l as x
""".strip().splitlines()

CTES = """
with c as (select k, count(*) as n from t group by k) select * from c where n > 1
with c as (select k, count(*) as n from t group by k) select a.k, b.n from c a join c b on a.k = b.k
with c as (select k, sum(v) as n from t group by k) select k from c where n = (select max(n) from c)
with c as (select k from t), d as (select k from c where k > 1) select c.k, d.k from c join d on c.k = d.k
with c(x, y) as (select k, v from t) select x, sum(y) from c group by x
with c as (with d as (select k, v from t) select k, max(v) as m from d group by k) select * from c
select * from (with c as (select k from t) select c.k from c) x where x.k = 1
with c as (select k from t) select k from c union all select k from c
with c as (select k, v from t) select * from c where v > (select avg(v) from c) and k in (select k from c where v < 11)
with t as (select k from u) select * from t
with c as (select k, v from t), d as (select a.k, b.v from c a join c b on a.k = b.k) select d1.k, d2.v from d d1 join d d2 on d1.v = d2.v
""".strip().splitlines()

SUBQUERIES = """
select * from t where exists (select 1 from u where u.k = t.k)
select * from t where not exists (select 1 from u where u.k = t.k)
select * from t where exists (select * from u where u.k = t.k and u.w > t.v)
select * from t where not exists (select * from u where u.k = t.k and u.w > t.v)
select * from t where exists (select 1 from u where u.w > t.v)
select * from t where not exists (select 1 from u where u.w < t.v)
select * from t where exists (select 1 from u where w > 250)
select * from t where not exists (select 1 from u where w > 2500)
select * from t where exists (select 1 from e)
select * from t where not exists (select 1 from e where e.k = t.k)
select * from t where exists (select count(*) from e where e.k = t.k)
select * from t where exists (select k from u where u.k = t.k group by k having count(*) > 1)
select * from t where exists (select 1 from u join b on u.k = b.k where u.k = t.k and b.g = 'a')
select * from t where exists (select 1 from u where u.k = t.k) and not exists (select 1 from b where b.k = t.k)
select * from t where exists (select 1 from u where u.k = t.k) or v = 30
select * from t where not (exists (select 1 from u where u.k = t.k) or v = 5)
select * from t where exists (select 1 from u where u.k = t.k and u.w > t.v) or t.s = 'z'
select k, exists (select 1 from u where u.k = t.k) as there from t
select k, case when exists (select 1 from u where u.k = t.k and w > v) then 'y' else 'n' end as c from t
select * from t where k in (select k from u)
select * from t where k in (select k from u where u.s = t.s)
select * from t where k in (select u.k from u where u.w > t.v)
select * from t where k not in (select k from u)
select * from t where k not in (select k from u where k is not null)
select * from t where k not in (select k from e)
select * from t where k not in (select u.k from u where u.s = t.s)
select * from t where k not in (select u.k from u where u.w > t.v)
select * from t where k not in (select w from u where u.k = t.k)
select * from t where (k, s) in (select k, s from u)
select * from t where (k, s) not in (select k, s from u)
select * from t where (k, s) not in (select k, s from u where k is not null and s is not null)
select * from t where (k, v) in (select k, w from u where u.s = 'q' or u.s = t.s)
select * from t where k + 1 in (select k from u)
select * from t where k in (select k from b)
select * from t where k in (select n from b)
select * from t where k in (select k from u) or s = 'z'
select * from t where k not in (select k from u) or s = 'z'
select * from t where k not in (select k from u where k < 3) or v > 20
select k, k in (select k from u) as c from t
select k, k not in (select k from u where k is not null) as c from t
select k, v in (select w from u where u.k = t.k) as c from t
select k, v not in (select w from u where u.k <> t.k) as c from t
select k, (k, s) in (select k, s from u) as c from t
select case when k in (select k from u) then 1 when v in (select w from u) then 2 else 3 end as c from t
select * from t where not (k in (select k from u) and v > 5)
select * from t where (k in (select k from u)) is null
select k, (select max(w) from u) as m from t
select k, (select max(w) from u where u.k = t.k) as m from t
select k, (select count(*) from u where u.k = t.k) as c from t
select k, (select count(*) + 1 from u where u.k = t.k) as c from t
select k, (select count(*) from u where u.w < t.v) as c from t
select k, (select sum(w) from u where u.w < t.v) as c from t
select k, (select coalesce(sum(w), -1) from u where u.k = t.k) as c from t
select k, (select count(distinct w) from u where u.k = t.k and u.s = t.s) as c from t
select k, (select max(w) from u where u.k = t.k having count(*) > 1) as c from t
select k, (select max(x) from e) as m, (select count(*) from e) as n from t
select k, (select n from (select count(*) as n from u where u.k = t.k)) as c from t
select * from t where v > (select avg(w) from u where u.k = t.k)
select * from t where v < (select max(w) from u where u.k = t.k) and k in (select k from b)
select * from t where (select count(*) from u where u.k = t.k) = 0
select * from t where (select count(*) from u where u.k = t.k) > 1
select * from t where v = (select min(v) from t i where i.k = t.k)
select * from t where v > 2 * (select avg(x.v) from t x where x.k <=> t.k)
select * from t o where v > (select avg(v) from t i where i.k > o.k)
select * from t where k = (select k from u order by w desc nulls last limit 1)
select k, (select s from u order by w limit 1) as first from t
select k, (select max(w) from u where u.k = t.k and u.w < (select max(w) from u)) as c from t
select * from t where exists (select 1 from u where u.k = t.k and exists (select 1 from b where b.k = u.k))
select * from t where k in (select k from u where w > (select avg(w) from u x where x.k = u.k))
select k, sum(v) from t group by k having sum(v) > (select avg(w) from u)
select k, sum(v) from t group by k having k in (select k from u)
select k, sum(v) from t group by k having exists (select 1 from u where u.k = t.k)
select k, sum(v), (select max(w) from u where u.k = t.k) as m from t group by k
select k, sum(v) as total from t group by k having sum(v) > (select sum(w) / 20 from u where u.k = t.k)
select sum(v) + (select max(w) from u) as c from t
select t.k, u.w from t join u on t.k = u.k and u.w > (select avg(w) from u)
select t.k, u.w from t left join u on t.k = u.k and u.w in (select w from u where w > 50)
select x.k, x.m from (select k, (select max(w) from u where u.k = t.k) as m from t) x where x.m > 50
select k from t where k in (select k from u union select k from b)
select k from t where k in (select k from u where u.k = t.k union all select k from b where b.k = t.k)
select k from t where exists (select k from u where u.k = t.k intersect select k from b)
select k, (select max(x) from (select w as x from u where u.k = t.k union all select 7)) as c from t
select k from t where v in (select w from u where u.k = t.k order by w limit 1)
select * from t where exists (select 1 from u left join b on u.k = b.k and b.g = t.s where u.k = t.k)
select k, (select count(*) from u left join b on u.k = b.k where u.k = t.k and b.k is null) as c from t
select * from t where k in (select distinct k from u where u.w > 10)
select * from t where k in (select max(k) from u where u.s = t.s)
select * from t where k not in (select max(k) from u where u.s = t.s)
select * from t where k in (select max(k) from u group by s)
select k, (select max(r) from (select row_number() over (order by w) as r from u where u.k = t.k)) as c from t
select k in (select k from u) as a, count(*) from t group by k in (select k from u)
select k, sum((select max(w) from u where u.k = t.k)) as c from t group by k
select k, (select max(w) from u where u.k = t.k) as m from t order by m desc, k limit 3
select row_number() over (order by (select max(w) from u), k, v, s, p) as r from t
""".strip().splitlines()

LATERALS = """
select t.k, l.m from t, lateral (select max(w) as m from u where u.k = t.k) l
select t.k, l.w from t, lateral (select w from u where u.k = t.k) l
select t.k, l.w from t left join lateral (select w from u where u.k = t.k) l on true
select t.k, l.w from t left join lateral (select w from u where u.k = t.k) l on l.w > t.v
select t.k, l.c from t, lateral (select count(*) as c from u where u.w < t.v) l
select t.k, l.w from t, lateral (select w from u where u.k = t.k order by w desc nulls last limit 1) l
select t.k, l.x from t, lateral (select t.k + 1 as x) l
select t.k, l.x from t, lateral (select u.w + t.v as x from u where u.k = t.k) l
select id, x from n, lateral explode(a) as l(x)
select id, x from n left join lateral explode(a) as l(x) on true
""".strip().splitlines()

#: Joins on a constant distance: in core form, all of them are joins on cells.
BANDS = """
select t.k, t.v, u.w from t join u on t.v between u.w - 5 and u.w + 5
select t.k, t.v, u.w from t, u where t.v >= u.w - 3 and t.v < u.w + 4
select t.k, c.y from t join c on abs(t.v - c.y) <= 5
select t.k, c.y from t join c on abs(t.v - c.y) <= 5 and t.s <> 'x'
select t.k, c.y from t join c on c.y - 5 < t.v and t.v < c.y + 5 where t.k > 0
select t.k, t.p, u.q from t join u on t.p between u.q - 0.5 and u.q + 0.75
select t.k, t.p, c.y from t join c on t.p > c.y - 1 and t.p <= c.y
select a.dt, b.dt from t a join t b on a.dt between b.dt - 1 and date_add(b.dt, 1)
select a.dt, b.dt from t a join t b on datediff(a.dt, b.dt) = 1
select a.id, b.id from m a join m b on a.at >= b.at and a.at < b.at + interval 5 seconds
select a.id, b.id from m a join m b on a.at - b.at between interval '-1' second and interval '0.5' second
select a.id, b.id from m a join m b on a.x between b.x and b.x + 10 where a.id < 9 and b.id < 9
select a.id, b.id from m a join m b on a.x between b.x - 10 and b.x where a.id > 3 and b.id > 3
select a.id, b.k from m a join t b on a.x between b.v - 10 and b.v + 10 where a.id < 9
select b.k, t.v from t join b on t.v > b.k + 3 and t.v < b.k + 10
select t.k, u.w from t join u on t.v > u.w + 5 and t.v < u.w
select t.k, t.v, u.w from t left join u on t.v between u.w - 5 and u.w + 5
select t.k, t.v, u.w from t right join u on t.v between u.w - 5 and u.w + 5
select t.k, t.v, u.w from t full join u on t.v between u.w - 5 and u.w + 5 and u.s is not null
select t.k, t.v from t left semi join u on t.v between u.w - 5 and u.w + 5
select t.k, t.v from t left anti join u on t.v between u.w - 5 and u.w + 5
select k, v from t where exists (select 1 from u where abs(u.w - t.v) < 2)
select k, v from t where not exists (select 1 from u where abs(u.w - t.v) < 2)
select t.k, count(*) as n, max(u.w) as m from t join u on t.v between u.w - 100 and u.w + 5 group by t.k
select t.v, x.m from t join (select k, max(w) as m from u group by k) x on t.v between x.m - 90 and x.m
select t.v, u.w, c.y from t join u on abs(t.v - u.w) <= 5 join c on c.y between t.v - 1 and t.v + 1
""".strip().splitlines()

#: Neither engine runs these: they mention rows two queries up, or mix both rows in one aggregate. SQLite is the judge.
BEYOND = """
select k, (select sum(w) + t.v from u where u.k = t.k) as c from t
select k, (select sum(u.w + t.v) from u where u.k = t.k) as c from t
select k, (select count(u.w + t.v) from u where u.k = t.k) as c from t
select k, v, s from t where exists (select 1 from u where u.k = t.k and exists (select 1 from b where b.k = u.k and b.g = t.s))
select k, v, s from t where exists (select 1 from u where exists (select 1 from b where b.k = t.k and b.k = u.k))
select k, v, s from t where not exists (select 1 from u where not exists (select 1 from b where b.k = t.k and b.k = u.k))
select k, v, s from t where k in (select k from u where w > (select sum(v) from t x where x.k = t.k))
select k, v, s from t where v > (select count(*) from u where u.k in (select b.k from b where b.k = t.k))
select k, v, s from t where v > (select count(*) from u where u.k not in (select b.k from b where b.k > t.k))
select k, (select max(w) from u where u.k = (select min(b.k) from b where b.k >= t.k)) as c from t
select k, (select count(*) from u where u.k = t.k and u.w > (select count(*) from b where b.k < t.k)) as c from t
select k, (select count(*) from (select u.k from u where u.w > t.v union all select b.k from b where b.k = t.k)) as c from t
select k, (select count(*) from (select u.k from u where u.w > t.v intersect select b.k from b where b.k >= t.k)) as c from t
select k, (select sum(x) from (select u.w as x from u where u.w > t.v order by u.w limit 2)) as c from t
select k, (select count(*) from u left join b on u.k = b.k and b.k > t.k where b.k is null) as c from t
select k, (select count(*) from b left join u on u.k = b.k and u.w > t.v) as c from t
select k, (select sum(n) from (select u.k, count(*) as n from u where u.w < t.v group by u.k)) as c from t
select k, (select max(r) from (select u.w + row_number() over (order by u.w) as r from u where u.w < t.v)) as c from t
select k, (select count(*) from u where u.w > (select max(b.k) + t.v from b)) as c from t
""".strip().splitlines()

ALL = {
    "plain": PLAIN,
    "joins": JOINS,
    "groups": GROUPS,
    "windows": WINDOWS,
    "sets": SETS,
    "generators": GENERATORS,
    "ctes": CTES,
    "subqueries": SUBQUERIES,
    "laterals": LATERALS,
    "bands": BANDS,
}
