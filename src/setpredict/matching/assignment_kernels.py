"""The optimal assignment on a CPU, for problems [first, last), without the GIL: shortest augmenting paths.

Columns are served one after another. Each looks for the cheapest chain of reassignments that ends at a free row, by
Dijkstra's algorithm on the reduced costs c − u − v ≥ 0; prices u of columns and v of rows keep them so. In double
precision whatever the costs are, since reduced costs are differences.
"""

from __future__ import annotations

from typing import no_type_check

import numba
import numpy as np

FINE, NOT_FINITE, TOO_FEW_ROWS = 0, 1, 2


@numba.njit(cache=True, nogil=True)
@no_type_check
def assign(costs, rows, columns, answer, state, first, last):
    """For costs (P, N, M) the row of every column in answer (P, M), −1 where absent; what went wrong in state (P,).

    `rows` (P, N) and `columns` (P, M) say what is present; they are empty where all is.
    """
    _, N, M = costs.shape
    table = np.empty((M, N), np.float64)  # a column's costs side by side
    row_of, column_of = np.empty(N, np.int64), np.empty(M, np.int64)
    room = np.empty((3, N + 1), np.float64)
    links = np.empty((3, N + 1), np.int64)
    for p in range(first, last):
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
        for i in range(N):
            for j in range(M):
                total += costs[p, i, j] * 0.0  # NaN if any is infinite or NaN
        if total != 0.0:
            state[p] = NOT_FINITE
            continue
        if n < m:
            state[p] = TOO_FEW_ROWS
            continue
        state[p] = FINE
        for j in range(m):
            for i in range(n):
                table[j, i] = costs[p, row_of[i], column_of[j]]
        solve(table, m, n, room, links)
        for i in range(n):
            if links[0, i] >= 0:
                answer[p, column_of[links[0, i]]] = row_of[i]


@numba.njit(cache=True, nogil=True)
@no_type_check
def solve(table, m, n, room, links):
    """Serve columns 0 … m−1 of table[j, i], rows 0 … n−1: links[0, i] is the column that row i serves, or −1."""
    u, v, distance = room[0], room[1], room[2]
    serves, before, done = links[0], links[1], links[2]
    for i in range(n):
        serves[i] = -1
        v[i] = 0.0
    for j in range(m):
        least, lowest = 0, np.inf
        for i in range(n):
            value = table[j, i] - v[i]
            if value < lowest or (value == lowest and serves[i] < 0):  # of equals a free row, which ends the search
                least, lowest = i, value
        u[j] = lowest
        if serves[least] < 0:  # the cheapest row is free: nothing to reassign
            serves[least] = j
            continue
        for i in range(n):
            distance[i] = np.inf
            before[i] = -1
            done[i] = 0
        column, reached, end = j, 0.0, -1
        last = -1
        while end < 0:
            nearest, lowest = -1, np.inf
            offset = reached - u[column]
            for i in range(n):
                if done[i] == 0:
                    length = offset + (table[column, i] - v[i])
                    if length < distance[i]:
                        distance[i] = length
                        before[i] = last
                    if distance[i] < lowest or (distance[i] == lowest and serves[i] < 0):
                        nearest, lowest = i, distance[i]
            reached = lowest
            done[nearest] = 1
            last = nearest
            if serves[nearest] < 0:
                end = nearest
            else:
                column = serves[nearest]
        u[j] += reached
        for i in range(n):
            if done[i] == 1 and i != end:
                u[serves[i]] += reached - distance[i]
                v[i] -= reached - distance[i]
        while end >= 0:  # pass the columns on along the chain
            previous = before[end]
            serves[end] = j if previous < 0 else serves[previous]
            end = previous
