"""The kinds of value in which a formula in NumPy notation can be read; plain numbers are NumPy's own arrays.

| kind | what a number is | forms of its own |
|---|---|---|
| `shapes.Shape` | nothing but its place in a shape | |
| `intervals.Box` | what lies between two bounds | `tight_intervals` |
| `terms.Terms` | a number and the arithmetic it comes from | `terms` |
| `rounded.Rounded` | what somebody has who rounds on the way | `rounded` |
| `bounds.Bounded` | a number and how far a machine may be off it | `bounds` |

A formula uses + - * / @ ** and comparisons; np.tanh exp log log1p sqrt square absolute maximum minimum clip where;
sum, mean, max, min, all, any along axes; changes of shape, concatenate, stack, take, repeat; slices and indices.
A plain array may stand on either side. Whatever a kind does not know is told as `errors.Opaque`.
"""
