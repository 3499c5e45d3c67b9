/* Hinges without noise, by an interior-point method: see solvers/newton.py.
 *
 * Example n has a dual variable beta in [low, high] for each of its kinks, at target - m = 0:
 *
 *     F(w, b) = |w|^2/2 + sum_i max(high r, low r),  r = target - m;  dual: sum target beta - |sum beta x|^2/2, sum beta = 0
 *
 * At the optimum q - p = r, p (beta - low) = 0 and q (high - beta) = 0 with p, q >= 0. A primal-dual interior-point method
 * (Mehrotra's predictor and corrector) follows the solutions with mu on the right: some ten to twenty steps, each with
 * one matrix I + X'diag(a)X and a = 1 / (p / (beta - low) + q / (high - beta)), whatever the data. */
#ifndef MARGINOUT_INTERIOR_H
#define MARGINOUT_INTERIOR_H

#include <stdlib.h>

#include "_newton.h"

typedef struct {
  int kinks;                                          /* of an example: 1 or 2 */
  double *target, *low, *high, *beta, *p, *q;         /* of each kink, (kinks, padded n) */
  double *move, *move_p, *move_q;                     /* the steps */
} interior;

/* Step back from the bounds; most steps; mu's share of F at which certificates begin. */
#define INSIDE 0.995
#define STEPS 60
#define ENOUGH 0.5
/* A slope of F in the offset that is zero, as a fraction of all kinks' rises. */
#define LEVEL 1e-12

/* G = w - X'(beta + E) and g = -sum (beta + E), for the step that leads to mu; H too if it is wanted. */
static void interior_look(newton *z, interior *k, double mu, int corrected, int curved) {
  const ptrdiff_t all = (z->n + PANEL - 1) / PANEL * PANEL;
  double parts[JET][PANEL], *jet[JET];
  for (int t = 0; t < JET; t++) jet[t] = parts[t];
  memset(parts, 0, sizeof(parts));
  clear_sums(z, curved);
  z->g = 0;
  if (curved) z->corner = 0;
  for (ptrdiff_t i = 0; i < z->n; i += PANEL) {
    const ptrdiff_t some = z->n - i < PANEL ? z->n - i : PANEL;
    for (int t = 0; t < PANEL; t++) parts[1][t] = parts[3][t] = 0;
    for (int kink = 0; kink < k->kinks; kink++)
      for (ptrdiff_t t = 0; t < some; t++) {
        const ptrdiff_t f = kink * all + i + t;
        const double under = 1.0 / (k->beta[f] - k->low[f]), over = 1.0 / (k->high[f] - k->beta[f]);
        const double a = 1.0 / (k->p[f] * under + k->q[f] * over);
        const double one = mu - (corrected ? k->move_p[f] * k->move[f] : 0.0);
        const double two = mu + (corrected ? k->move_q[f] * k->move[f] : 0.0);
        const double e = k->target[f] - z->m[i + t] - two * over + one * under;
        parts[3][t] += a, parts[1][t] -= k->beta[f] + a * e;
      }
    for (ptrdiff_t t = 0; t < some; t++) {
      z->g += parts[1][t];
      if (curved) z->corner += parts[3][t];
    }
    add_block_sums(z, i, curved, NULL, jet);
  }
  if (curved) {
    fold_pairs(z);
    for (ptrdiff_t j = 0; j < z->d; j++) z->H[j * z->wide + j] += 1.0;
    memcpy(z->kept, z->cross, z->wide * sizeof(double));
  }
  memcpy(z->cross, z->kept, z->wide * sizeof(double));
  for (ptrdiff_t j = 0; j < z->d; j++) z->G[j] += z->w[j];
  if (!z->offset) z->g = 0;
}

/* The steps in beta, p and q for that in (w, b), and how far they may go. */
static double interior_step(newton *z, interior *k, double mu, int corrected) {
  const ptrdiff_t all = (z->n + PANEL - 1) / PANEL * PANEL;
  double most = 1.0 / INSIDE;
  solve_step(z, z->offset);
  for (ptrdiff_t i = 0; i < z->n; i += PANEL) {
    for (int t = 0; t < PANEL; t++) z->a[i + t] = z->dw_b;
    add_scores(z, i, z->p, NULL, NULL, z->a + i, NULL, NULL);
  }
  for (int kink = 0; kink < k->kinks; kink++)
    for (ptrdiff_t i = 0; i < z->n; i++) {
      const ptrdiff_t f = kink * all + i;
      const double below = k->beta[f] - k->low[f], above = k->high[f] - k->beta[f], p = k->p[f], q = k->q[f];
      const double a = 1.0 / (p / below + q / above);
      const double one = mu - (corrected ? k->move_p[f] * k->move[f] : 0.0);
      const double two = mu + (corrected ? k->move_q[f] * k->move[f] : 0.0);
      const double step = a * (k->target[f] - z->m[i] - two / above + one / below - z->a[i]);
      const double step_p = (one - p * step) / below - p, step_q = (two + q * step) / above - q;
      k->move[f] = step, k->move_p[f] = step_p, k->move_q[f] = step_q;
      if (step < 0 && step * most < -below) most = -below / step;
      if (step > 0 && above < step * most) most = above / step;
      if (step_p < 0 && step_p * most < -p) most = -p / step_p;
      if (step_q < 0 && step_q * most < -q) most = -q / step_q;
    }
  return most * INSIDE;
}

/* Sum p (beta - low) + q (high - beta) after a step of some length. */
static double complementarity(const newton *z, const interior *k, double length) {
  const ptrdiff_t all = (z->n + PANEL - 1) / PANEL * PANEL;
  double sum = 0;
  for (int kink = 0; kink < k->kinks; kink++)
    for (ptrdiff_t i = 0; i < z->n; i++) {
      const ptrdiff_t f = kink * all + i;
      const double beta = k->beta[f] + length * k->move[f];
      sum += (k->p[f] + length * k->move_p[f]) * (beta - k->low[f]) + (k->q[f] + length * k->move_q[f]) * (k->high[f] - beta);
    }
  return sum;
}

/* The dual's value for beta made to sum to zero, if there is an offset: one pass over X. */
static double dual_value(newton *z, const interior *k) {
  const ptrdiff_t all = (z->n + PANEL - 1) / PANEL * PANEL;
  double up = 0, down = 0, linear = 0, parts[JET][PANEL], *jet[JET];
  for (int t = 0; t < JET; t++) jet[t] = parts[t];
  memset(parts, 0, sizeof(parts));
  for (int kink = 0; kink < k->kinks; kink++)
    for (ptrdiff_t i = 0; i < z->n; i++) {
      const double beta = k->beta[kink * all + i];
      if (beta > 0) up += beta;
      else down -= beta;
    }
  const double least = up < down ? up : down;
  const double rise = z->offset && up > 0 ? least / up : 1.0, fall = z->offset && down > 0 ? least / down : 1.0;
  clear_sums(z, 0);
  for (ptrdiff_t i = 0; i < z->n; i += PANEL) {
    const ptrdiff_t some = z->n - i < PANEL ? z->n - i : PANEL;
    for (int t = 0; t < PANEL; t++) parts[1][t] = 0;
    for (int kink = 0; kink < k->kinks; kink++)
      for (ptrdiff_t t = 0; t < some; t++) {
        const ptrdiff_t f = kink * all + i + t;
        const double beta = k->beta[f] * (k->beta[f] > 0 ? rise : fall);
        parts[1][t] += beta, linear += k->target[f] * beta;
      }
    add_block_sums(z, i, 0, NULL, jet);
  }
  return linear - 0.5 * dot(z->G, z->G, z->d);
}

/* F where the scores are m. */
static double interior_value(const newton *z, const interior *k) {
  const ptrdiff_t all = (z->n + PANEL - 1) / PANEL * PANEL;
  double value = 0.5 * dot(z->w, z->w, z->d);
  for (int kink = 0; kink < k->kinks; kink++)
    for (ptrdiff_t i = 0; i < z->n; i++) {
      const ptrdiff_t f = kink * all + i;
      const double r = k->target[f] - z->m[i];
      value += r > 0 ? k->high[f] * r : k->low[f] * r;
    }
  return value;
}

/* m at (w, b), and F: one pass over X. */
static void interior_scores(newton *z, const interior *k) {
  for (ptrdiff_t i = 0; i < z->n; i += PANEL) {
    for (int t = 0; t < PANEL; t++) z->m[i + t] = z->b, z->v[i + t] = z->floor;
    add_scores(z, i, z->w, NULL, NULL, z->m + i, NULL, NULL);
  }
  z->value = interior_value(z, k);
}

typedef struct {
  double at, rise;
} jump;

static int by_place(const void *one, const void *two) {
  const double a = ((const jump *)one)->at, b = ((const jump *)two)->at;
  return (a > b) - (a < b);
}

/* The best offset for w, and F there: where F is level, the middle, whatever the point was. The room is that of move_p
 * and move_q, which lie side by side. */
static void interior_settle(newton *z, interior *k) {
  const ptrdiff_t all = (z->n + PANEL - 1) / PANEL * PANEL;
  jump *jumps = (jump *)k->move_p;
  ptrdiff_t count = 0;
  double slope = 0, rises = 0;
  for (int kink = 0; z->offset && kink < k->kinks; kink++)
    for (ptrdiff_t i = 0; i < z->n; i++) {
      const ptrdiff_t f = kink * all + i;
      slope -= k->high[f], rises += k->high[f] - k->low[f];
      if (k->high[f] > k->low[f]) jumps[count++] = (jump){k->target[f] - z->m[i], k->high[f] - k->low[f]};
    }
  if (count) {
    qsort(jumps, count, sizeof(jump), by_place);
    ptrdiff_t low = 0;
    for (; low < count - 1 && slope + jumps[low].rise < -LEVEL * rises; low++) slope += jumps[low].rise;
    ptrdiff_t high = low;
    for (; high < count - 1 && slope + jumps[high].rise <= LEVEL * rises; high++) slope += jumps[high].rise;
    const double delta = 0.5 * (jumps[low].at + jumps[high].at);
    z->b += delta;
    for (ptrdiff_t i = 0; i < z->n; i++) z->m[i] += delta;
  }
  z->value = interior_value(z, k);
}

static newton_end interior_solve(
    newton *z, interior *k, newton_rules rules, int max_iter, newton_watch watch, void *who) {
  newton_end end = {0, 0, 0, 0, 1, 0, 0};
  const ptrdiff_t all = (z->n + PANEL - 1) / PANEL * PANEL;
  double best = INFINITY, size = 0, unseen = 0; /* what rounding hides of F */
  double certified = INFINITY, kept_b = 0, kept_value = 0; /* of the best point that has been certified, whose w is r */
  round_off(z, z->least);
  memset(z->w, 0, z->wide * sizeof(double));
  z->b = 0;
  interior_scores(z, k);
  for (int kink = 0; kink < k->kinks; kink++)
    for (ptrdiff_t i = 0; i < z->n; i++) {
      const ptrdiff_t f = kink * all + i;
      const double r = k->target[f];
      k->beta[f] = 0.5 * (k->low[f] + k->high[f]);
      k->p[f] = at_least(-r, 0.0) + z->unit, k->q[f] = at_least(r, 0.0) + z->unit;
      k->move[f] = k->move_p[f] = k->move_q[f] = 0, size += 2;
      unseen += DBL_EPSILON * z->unit * (k->high[f] - k->low[f]);
    }
  for (int iteration = 1; z->n && iteration <= max_iter && iteration <= STEPS; iteration++) {
    const double sum = complementarity(z, k, 0.0);
    interior_look(z, k, 0.0, 0, 1);
    if (!sound(z)) {
      end.broken = 1;
      break;
    }
    factor(z, z->offset);
    double length = interior_step(z, k, 0.0, 0);
    const double ratio = complementarity(z, k, length) / sum, mu = ratio * ratio * ratio * sum / size;
    interior_look(z, k, mu, 1, 0);
    length = interior_step(z, k, mu, 1);
    for (ptrdiff_t j = 0; j < z->d; j++) z->w[j] += length * z->p[j];
    z->b += length * z->dw_b;
    for (ptrdiff_t f = 0; f < k->kinks * all; f++)
      k->beta[f] += length * k->move[f], k->p[f] += length * k->move_p[f], k->q[f] += length * k->move_q[f];
    interior_scores(z, k);
    const double left = complementarity(z, k, 0.0);
    if (!isfinite(z->value + left)) {
      end.broken = 1;
      break;
    }
    end.left = left;
    end.iterations = iteration;
    best = at_most(z->value, best);
    z->history[iteration - 1] = best;
    end.value = end.gap = z->value;
    const int last = iteration == max_iter || iteration == STEPS;
    if (end.left > ENOUGH * rules.tight * z->value && end.left > unseen && !last) {
      end.stopped = show(z, iteration, end.left, watch, who);
      if (end.stopped) return end;
      continue;
    }
    const double low = dual_value(z, k), b = z->b, before = certified;
    const double value = z->value;
    interior_settle(z, k);
    const double gap = at_most(at_least(z->value - low, 0.0) + ROUNDING * z->value, z->value);
    if (gap < certified) { /* the best of all */
      memcpy(z->r, z->w, z->wide * sizeof(double));
      certified = end.left = gap, kept_b = z->b, kept_value = z->value;
    }
    end.converged = certified <= rules.tol * kept_value || certified <= unseen;
    /* What tol asks for is enough where rounding lets the gap fall no further. */
    const int enough = certified <= rules.tight * kept_value || certified <= unseen || gap > 0.5 * before;
    if (last || (end.converged && enough)) break;
    end.stopped = show(z, iteration, gap, watch, who);
    if (end.stopped) {
      end.value = z->value, end.gap = gap;
      return end;
    }
    for (ptrdiff_t i = 0; i < z->n; i++) z->m[i] += b - z->b;
    z->b = b, z->value = value;
  }
  if (certified < INFINITY) {
    memcpy(z->w, z->r, z->wide * sizeof(double));
    z->b = kept_b, z->value = end.value = kept_value, end.gap = certified;
    end.broken = end.broken && !end.converged;
  }
  if (end.broken) end.value = end.gap = at_most(best, DBL_MAX);
  if (end.iterations) z->history[end.iterations - 1] = end.value;
  if (end.iterations && !end.stopped && !end.broken) end.stopped = show(z, -end.iterations, end.left, watch, who);
  return end;
}

#endif
