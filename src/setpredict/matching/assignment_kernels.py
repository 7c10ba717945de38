"""CPU kernels of the optimal assignment, for problems [start, stop), without the GIL: shortest augmenting paths.

Columns are assigned one after another. For each one, Dijkstra's algorithm on the reduced costs c − u − v ≥ 0 finds the
cheapest chain of reassignments that ends at a free row; the potentials u of columns and v of rows keep the reduced
costs nonnegative. In double precision whatever the costs are, since reduced costs are differences.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from setpredict.core.jit import kernel

OK, NOT_FINITE, TOO_FEW_ROWS = 0, 1, 2


@kernel
@no_type_check
def assign(costs, rows, columns, answer, status, start, stop):
    """Write the row of every column of costs (P, N, M) to answer (P, M), −1 where absent, and failures to status (P,).

    `rows` (P, N) and `columns` (P, M) say what is present; empty arrays mean that all are.
    """
    _, N, M = costs.shape
    table = np.empty((M, N), np.float64)  # the costs of a column are contiguous
    row_of, column_of = np.empty(N, np.int64), np.empty(M, np.int64)
    workspace = np.empty((3, N + 1), np.float64)
    links = np.empty((3, N + 1), np.int64)
    for p in range(start, stop):
        n = m = 0
        for i in range(N):
            if len(rows) == 0 or rows[p, i]:
                row_of[n] = i
                n += 1
        for j in range(M):
            answer[p, j] = -1
            if len(columns) == 0 or columns[p, j]:
                column_of[m] = j
                m += 1
        total = 0.0
        for i in range(n):
            for j in range(m):
                total += costs[p, row_of[i], column_of[j]] * 0.0  # NaN if any cost is infinite or NaN
        if total != 0.0:
            status[p] = NOT_FINITE
            continue
        if n < m:
            status[p] = TOO_FEW_ROWS
            continue
        status[p] = OK
        for j in range(m):
            for i in range(n):
                table[j, i] = costs[p, row_of[i], column_of[j]]
        solve(table, m, n, workspace, links)
        for i in range(n):
            if links[0, i] >= 0:
                answer[p, column_of[links[0, i]]] = row_of[i]


@kernel
@no_type_check
def solve(table, m, n, workspace, links):
    """Assign rows 0 … n−1 to columns 0 … m−1 of table[j, i]: links[0, i] is the column of row i, or −1."""
    u, v, distance = workspace[0], workspace[1], workspace[2]
    assigned, previous, visited = links[0], links[1], links[2]
    for i in range(n):
        assigned[i] = -1
        v[i] = 0.0
    for j in range(m):
        cheapest, lowest = 0, np.inf
        for i in range(n):
            value = table[j, i] - v[i]
            if value < lowest or (value == lowest and assigned[i] < 0):  # prefer a free row, which ends the search
                cheapest, lowest = i, value
        u[j] = lowest
        if assigned[cheapest] < 0:  # the cheapest row is free: nothing to reassign
            assigned[cheapest] = j
            continue
        for i in range(n):
            distance[i] = np.inf
            previous[i] = -1
            visited[i] = 0
        column, reached, end = j, 0.0, -1
        last = -1
        while end < 0:
            nearest, lowest = -1, np.inf
            offset = reached - u[column]
            for i in range(n):
                if visited[i] == 0:
                    length = offset + (table[column, i] - v[i])
                    if length < distance[i]:
                        distance[i] = length
                        previous[i] = last
                    if distance[i] < lowest or (distance[i] == lowest and assigned[i] < 0):
                        nearest, lowest = i, distance[i]
            reached = lowest
            visited[nearest] = 1
            last = nearest
            if assigned[nearest] < 0:
                end = nearest
            else:
                column = assigned[nearest]
        u[j] += reached
        for i in range(n):
            if visited[i] == 1 and i != end:
                u[assigned[i]] += reached - distance[i]
                v[i] -= reached - distance[i]
        while end >= 0:  # move each column one row along the chain
            before = previous[end]
            assigned[end] = j if before < 0 else assigned[before]
            end = before
