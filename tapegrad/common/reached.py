"""What can be reached from some things, by what each leads to."""


def reached(starts, following, avoid=None):
    """`starts` and all that ``following(each)`` leads to, but for `avoid`, in the order in which they are met."""
    met, work = {}, list(starts)
    while work:
        each = work.pop()
        if each not in met and each != avoid:
            met[each] = None
            work += following(each)
    return met
