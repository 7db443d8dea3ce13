"""The kinds of value in which a formula in NumPy notation can be read; plain numbers are NumPy's own arrays.

| kind | what a number is |
|---|---|
| `shapes.Shape` | nothing but its place in a shape |
| `intervals.Box` | what lies between two bounds |
| `terms.Terms` | a number and the arithmetic it comes from |
| `rounded.Rounded` | what somebody has who rounds on the way |
| `bounds.Bounded` | a number and how far a machine may be off it |

A formula uses + - * / @ ** and comparisons; np.tanh exp log log1p sqrt square absolute maximum minimum clip where;
sum, mean, max, min, all, any along axes; changes of shape, concatenate, stack, take, repeat; slices and indices.
A plain array may stand on either side. Whatever a kind does not know is told as `errors.Opaque`.
The forms that `pipeline.tight` dispatches on stand in `shapes` for shapes, which every problem is read in, and in
`forms` for the others: who reads in one of these imports it.
"""
