"""Average precision by nested loops, one detection at a time: slow, and hard to get wrong."""

import math


def overlap(a, b, plus_one=False):
    if plus_one:
        return overlap_of_the_release(a, b)
    inner = max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    areas = [max(0.0, c[2] - c[0]) * max(0.0, c[3] - c[1]) for c in (a, b)]
    union = areas[0] + areas[1] - inner
    return inner / union if union > 0 else 0.0


def overlap_of_the_release(a, b):
    """The formula of the evaluator in the paper's release: 0 unless boxes touch, then 1 is added to every side."""
    if a[0] > b[2] or b[0] > a[2] or a[1] > b[3] or b[1] > a[3]:
        return 0.0
    inner = (min(a[2], b[2]) - max(a[0], b[0]) + 1) * (min(a[3], b[3]) - max(a[1], b[1]) + 1)
    areas = [(c[2] - c[0] + 1) * (c[3] - c[1] + 1) for c in (a, b)]
    return inner / (areas[0] + areas[1] - inner)


def nearest_box(plus_one=False):
    """The candidate and agreement of one box: the highest IoU."""

    def choose(box, truths):
        best, best_iou = None, -1.0
        for number, truth in truths:
            iou = overlap(box, truth, plus_one)
            if iou > best_iou:
                best, best_iou = number, iou
        return best, best_iou

    return choose


def nearest_state(coordinates, scale, groups):
    """The candidate and agreement of one state: the smallest distance among those with the same attributes."""

    def attributes(state):
        return [max(range(stop - start), key=lambda k: state[start + k]) for start, stop in groups.values()]

    def choose(state, truths):
        best, best_distance = None, math.inf
        for number, truth in truths:
            if attributes(truth) != attributes(state):
                continue
            distance = math.sqrt(sum((scale * state[c] - scale * truth[c]) ** 2 for c in range(coordinates)))
            if best is None or distance < best_distance:
                best, best_distance = number, distance
        return best, -best_distance

    return choose


def detections(outputs, scores, targets, mask, choose, index=None):
    """(score, image, element, candidate, agreement) of all outputs of all images, in order of the ranking."""
    pooled = []
    for i, image in enumerate(outputs):
        truths = [(m, t) for m, t in enumerate(targets[i]) if mask[i][m]]
        for n, output in enumerate(image):
            candidate, agreement = choose(output, truths)
            score = scores[i][n]
            number = i if index is None else index[i]
            pooled.append((score, number, n, candidate, agreement))
    return sorted(pooled, key=lambda d: (-d[0], d[1], d[2]))


def is_true(ranked, floor):
    """For each ranked detection: does it pass, and is its ground truth still free?"""
    taken, flags = set(), []
    for _, image, _, candidate, agreement in ranked:
        good = candidate is not None and agreement >= floor and (image, candidate) not in taken
        if good:
            taken.add((image, candidate))
        flags.append(good)
    return flags


def area(flags, ground_truths):
    """The area under precision against recall, where precision is the best at this recall or a higher one."""
    curve, true = [(0.0, 1.0)], 0
    for rank, flag in enumerate(flags, start=1):
        true += flag
        curve.append((true / ground_truths, true / rank))
    total = 0.0
    for k in range(1, len(curve)):
        step = curve[k][0] - curve[k - 1][0]
        if step > 0:
            total += step * max(precision for _, precision in curve[k:])
    return total


def average_precision(outputs, scores, targets, mask, choose, floors, index=None):
    outputs, scores, targets, mask = (x.tolist() for x in (outputs, scores, targets, mask))
    ranked = detections(outputs, scores, targets, mask, choose, index)
    ground_truths = sum(map(sum, mask))
    return [area(is_true(ranked, floor), ground_truths) for floor in floors]
