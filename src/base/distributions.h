// Draws in double precision from the distributions that modelled times follow.
//
// Equations: gamma(m, V) has mean m and standard deviation V m; exponential(m) has mean m; pareto
// (m, a) has mean m and density ~ x^-(a + 1) from m (a - 1) / a on.
// Thread safety: pure functions of the generator's state, which they move.
#pragma once

#include "src/base/rng.h"

namespace kinet {

double open_uniform(Rng& rng);     // (0, 1), 53 bits
double standard_normal(Rng& rng);  // mean 0, standard deviation 1; two draws each
double gamma_draw(double mean, double variation, Rng& rng);  // variation 0: the mean itself
double exponential_draw(double mean, Rng& rng);
double pareto_draw(double mean, double shape, Rng& rng);  // REQUIRES: shape > 1

}  // namespace kinet
