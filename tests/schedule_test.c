/* Schedules from C: every kind against rates that PyTorch gave (tests/python/optim/schedules.py records them), closed
 * forms, state, errors. */
#include "tape_fixture.h"

enum { STEPS = 12 };
static double power(int64_t epoch, void *context) {
    (void)context;
    return pow(0.95, (double)epoch);
}
static double rising(int64_t epoch, void *context) {
    (void)context;
    return 0.9 + 0.01 * (double)epoch;
}
#define SEQUENCE(at, ...) sequence(o, at, (tp_schedule *[]){__VA_ARGS__, NULL})
static tp_schedule *sequence(tp_optimiser *o, tp_ints milestones, tp_schedule **parts) {
    int64_t n = 0;
    while (parts[n]) n++;
    return tp_sequential_lr(o, n, parts, milestones);
}

static tp_schedule *make_0(tp_optimiser *o) { return tp_lambda_lr(o, .lr_lambda = power); }
static tp_schedule *make_1(tp_optimiser *o) { return tp_multiplicative_lr(o, .lr_lambda = rising); }
static tp_schedule *make_2(tp_optimiser *o) { return tp_step_lr(o, .step_size = 3); }
static tp_schedule *make_3(tp_optimiser *o) {
    return tp_multi_step_lr(o, .milestones = TP_INTS(2, 5, 5, 9), .gamma = 0.5);
}
static tp_schedule *make_4(tp_optimiser *o) { return tp_constant_lr(o, .factor = 0.25, .total_iters = 4); }
static tp_schedule *make_5(tp_optimiser *o) { return tp_linear_lr(o); }
static tp_schedule *make_6(tp_optimiser *o) {
    return tp_linear_lr(o, .start_factor = 0.1, .end_factor = 0.8, .total_iters = 7);
}
static tp_schedule *make_7(tp_optimiser *o) { return tp_exponential_lr(o, .gamma = 0.9); }
static tp_schedule *make_8(tp_optimiser *o) { return tp_polynomial_lr(o, .total_iters = 9, .power = 2); }
static tp_schedule *make_9(tp_optimiser *o) { return tp_cosine_annealing_lr(o, .T_max = 5); }
static tp_schedule *make_10(tp_optimiser *o) { return tp_cosine_annealing_lr(o, .T_max = 4, .eta_min = 0.01); }
static tp_schedule *make_11(tp_optimiser *o) {
    return tp_cosine_annealing_warm_restarts(o, .T_0 = 2, .T_mult = 2, .eta_min = 0.001);
}
static tp_schedule *make_12(tp_optimiser *o) {
    return tp_cyclic_lr(o, .base_lr = 0.01, .max_lr = 0.1, .step_size_up = 3);
}
static tp_schedule *make_13(tp_optimiser *o) {
    return tp_cyclic_lr(o, .base_lr = 0.01, .max_lr = 0.1, .step_size_up = 3, .mode = "exp_range", .gamma = 0.9,
                        .cycle_momentum = 0);
}
static tp_schedule *make_14(tp_optimiser *o) { return tp_one_cycle_lr(o, .max_lr = 0.5, .total_steps = 20); }
static tp_schedule *make_15(tp_optimiser *o) {
    return tp_one_cycle_lr(o, .max_lr = 0.5, .total_steps = 18, .cycle_momentum = 0, .div_factor = 10,
                           .final_div_factor = 100);
}
static tp_schedule *make_16(tp_optimiser *o) {
    return SEQUENCE(TP_INTS(3), tp_linear_lr(o, .start_factor = 0.1, .total_iters = 3),
                    tp_exponential_lr(o, .gamma = 0.9));
}
static tp_schedule *make_17(tp_optimiser *o) {
    return SEQUENCE(TP_INTS(2, 8), tp_constant_lr(o, .factor = 0.1, .total_iters = 2),
                    tp_cosine_annealing_lr(o, .T_max = 5), tp_step_lr(o, .step_size = 2));
}
static tp_schedule *make_18(tp_optimiser *o) {
    return SEQUENCE(TP_INTS(6),
                    SEQUENCE(TP_INTS(2), tp_constant_lr(o, .factor = 0.1, .total_iters = 2), tp_linear_lr(o)),
                    tp_exponential_lr(o, .gamma = 0.9));
}
static tp_schedule *make_19(tp_optimiser *o) {
    return tp_chained_scheduler(
        2, (tp_schedule *[]){tp_constant_lr(o, .factor = 0.1, .total_iters = 2), tp_exponential_lr(o, .gamma = 0.9)});
}

/* Rates of the two groups and the momentum of the first, as made and after each step. */
static const struct {
    tp_schedule *(*make)(tp_optimiser *o);
    double rate[2][STEPS + 1], momentum[STEPS + 1];
} cases[] = {
    {make_0,
     {{0.1, 0.095, 0.09025, 0.0857375, 0.081450625, 0.07737809375, 0.0735091890625, 0.069833729609375,
       0.0663420431289062, 0.0630249409724609, 0.0598736939238379, 0.056880009227646, 0.0540360087662637},
      {0.4, 0.38, 0.361, 0.34295, 0.3258025, 0.309512375, 0.29403675625, 0.2793349184375, 0.265368172515625,
       0.252099763889844, 0.239494775695351, 0.227520036910584, 0.216144035065055}},
     {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9}},
    {make_1,
     {{0.1, 0.091, 0.08372, 0.0778596, 0.073188024, 0.0695286228, 0.066747477888, 0.06474505355136, 0.0634501524803328,
       0.0628156509555295, 0.0628156509555295, 0.0634438074650848, 0.0647126836143865},
      {0.4, 0.364, 0.33488, 0.3114384, 0.292752096, 0.2781144912, 0.266989911552, 0.25898021420544, 0.253800609921331,
       0.251262603822118, 0.251262603822118, 0.253775229860339, 0.258850734457546}},
     {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9}},
    {make_2,
     {{0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.001, 0.001, 0.001, 0.0001, 0.0001, 0.0001, 1e-05},
      {0.4, 0.4, 0.4, 0.04, 0.04, 0.04, 0.004, 0.004, 0.004, 0.0004, 0.0004, 0.0004, 4e-05}},
     {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9}},
    {make_3,
     {{0.1, 0.1, 0.05, 0.05, 0.05, 0.0125, 0.0125, 0.0125, 0.0125, 0.00625, 0.00625, 0.00625, 0.00625},
      {0.4, 0.4, 0.2, 0.2, 0.2, 0.05, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025, 0.025}},
     {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9}},
    {make_4,
     {{0.025, 0.025, 0.025, 0.025, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1},
      {0.1, 0.1, 0.1, 0.1, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4}},
     {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9}},
    {make_5,
     {{0.0333333333333333, 0.0466666666666667, 0.06, 0.0733333333333333, 0.0866666666666667, 0.1, 0.1, 0.1, 0.1, 0.1,
       0.1, 0.1, 0.1},
      {0.133333333333333, 0.186666666666667, 0.24, 0.293333333333333, 0.346666666666667, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4,
       0.4, 0.4}},
     {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9}},
    {make_6,
     {{0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.08, 0.08, 0.08, 0.08, 0.08},
      {0.04, 0.08, 0.12, 0.16, 0.2, 0.24, 0.28, 0.32, 0.32, 0.32, 0.32, 0.32, 0.32}},
     {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9}},
    {make_7,
     {{0.1, 0.09, 0.081, 0.0729, 0.06561, 0.059049, 0.0531441, 0.04782969, 0.043046721, 0.0387420489, 0.03486784401,
       0.031381059609, 0.0282429536481},
      {0.4, 0.36, 0.324, 0.2916, 0.26244, 0.236196, 0.2125764, 0.19131876, 0.172186884, 0.1549681956, 0.13947137604,
       0.125524238436, 0.1129718145924}},
     {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9}},
    {make_8,
     {{0.1, 0.0790123456790123, 0.0604938271604938, 0.0444444444444445, 0.0308641975308642, 0.0197530864197531,
       0.0111111111111111, 0.00493827160493827, 0.00123456790123457, 0, 0, 0, 0},
      {0.4, 0.316049382716049, 0.241975308641975, 0.177777777777778, 0.123456790123457, 0.0790123456790123,
       0.0444444444444445, 0.0197530864197531, 0.00493827160493828, 0, 0, 0, 0}},
     {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9}},
    {make_9,
     {{0.1, 0.0904508497187474, 0.0654508497187474, 0.0345491502812526, 0.00954915028125263, 0, 0.00954915028125263,
       0.0345491502812526, 0.0654508497187474, 0.0904508497187474, 0.1, 0.0904508497187475, 0.0654508497187474},
      {0.4, 0.36180339887499, 0.261803398874989, 0.138196601125011, 0.0381966011250105, 0, 0.0381966011250105,
       0.138196601125011, 0.26180339887499, 0.36180339887499, 0.4, 0.36180339887499, 0.26180339887499}},
     {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9}},
    {make_10,
     {{0.1, 0.0868198051533946, 0.055, 0.0231801948466054, 0.01, 0.0231801948466054, 0.055, 0.0868198051533947, 0.1,
       0.0868198051533947, 0.055, 0.0231801948466054, 0.01},
      {0.4, 0.342885822331377, 0.205, 0.0671141776686233, 0.01, 0.0671141776686232, 0.205, 0.342885822331377, 0.4,
       0.342885822331377, 0.205, 0.0671141776686234, 0.01}},
     {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9}},
    {make_11,
     {{0.1, 0.0505, 0.1, 0.0855017856687341, 0.0505, 0.0154982143312659, 0.1, 0.0962320368593087, 0.0855017856687341,
       0.069442829902072, 0.0505, 0.0315571700979281, 0.0154982143312659},
      {0.4, 0.2005, 0.4, 0.341567802846716, 0.2005, 0.0594321971532838, 0.4, 0.384813966736002, 0.341567802846716,
       0.276845344756835, 0.2005, 0.124154655243165, 0.0594321971532838}},
     {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9}},
    {make_12,
     {{0.01, 0.04, 0.07, 0.1, 0.07, 0.04, 0.01, 0.0400000000000001, 0.07, 0.1, 0.07, 0.0400000000000001, 0.01},
      {0.01, 0.04, 0.07, 0.1, 0.07, 0.04, 0.01, 0.0400000000000001, 0.07, 0.1, 0.07, 0.0400000000000001, 0.01}},
     {0.9, 0.866666666666667, 0.833333333333333, 0.8, 0.833333333333333, 0.866666666666667, 0.9, 0.866666666666667,
      0.833333333333333, 0.8, 0.833333333333333, 0.866666666666667, 0.9}},
    {make_13,
     {{0.01, 0.037, 0.0586, 0.07561, 0.049366, 0.0277147, 0.01, 0.024348907, 0.0358280326, 0.04486784401,
       0.030920706406, 0.0194143178827, 0.01},
      {0.01, 0.037, 0.0586, 0.07561, 0.049366, 0.0277147, 0.01, 0.024348907, 0.0358280326, 0.04486784401,
       0.030920706406, 0.0194143178827, 0.01}},
     {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9}},
    {make_14,
     {{0.02, 0.0658359213500126, 0.185835921350013, 0.334164078649987, 0.454164078649987, 0.5, 0.493732003117544,
       0.475242316006737, 0.445458088785525, 0.405872826974882, 0.35847150089565, 0.305631010968145, 0.250001},
      {0.02, 0.0658359213500126, 0.185835921350013, 0.334164078649987, 0.454164078649987, 0.5, 0.493732003117544,
       0.475242316006737, 0.445458088785525, 0.405872826974882, 0.35847150089565, 0.305631010968145, 0.250001}},
     {0.95, 0.940450849718747, 0.915450849718747, 0.884549150281253, 0.859549150281253, 0.85, 0.851253604390909,
      0.854951556604879, 0.860908425876598, 0.868825509907063, 0.878305813044122, 0.888873953302184, 0.9}},
    {make_15,
     {{0.05, 0.104956345770292, 0.242979161388511, 0.396644183927509, 0.490885919063262, 0.497210498849726,
       0.480388683914634, 0.449333843678925, 0.405966578014219, 0.35296895400687, 0.293618632372316, 0.231586159126791,
       0.170707959099642},
      {0.05, 0.104956345770292, 0.242979161388511, 0.396644183927509, 0.490885919063262, 0.497210498849726,
       0.480388683914634, 0.449333843678925, 0.405966578014219, 0.35296895400687, 0.293618632372316, 0.231586159126791,
       0.170707959099642}},
     {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9}},
    {make_16,
     {{0.01, 0.04, 0.07, 0.1, 0.09, 0.081, 0.0729, 0.06561, 0.059049, 0.0531441, 0.04782969, 0.043046721, 0.0387420489},
      {0.04, 0.16, 0.28, 0.4, 0.36, 0.324, 0.2916, 0.26244, 0.236196, 0.2125764, 0.19131876, 0.172186884,
       0.1549681956}},
     {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9}},
    {make_17,
     {{0.01, 0.01, 0.1, 0.0904508497187474, 0.0654508497187474, 0.0345491502812526, 0.00954915028125263, 0, 0.1, 0.1,
       0.01, 0.01, 0.001},
      {0.04, 0.04, 0.4, 0.36180339887499, 0.261803398874989, 0.138196601125011, 0.0381966011250105, 0, 0.4, 0.4, 0.04,
       0.04, 0.004}},
     {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9}},
    {make_18,
     {{0.01, 0.0333333333333333, 0.0466666666666667, 0.06, 0.0733333333333333, 0.0866666666666667, 0.1, 0.09, 0.081,
       0.0729, 0.06561, 0.059049, 0.0531441},
      {0.04, 0.133333333333333, 0.186666666666667, 0.24, 0.293333333333333, 0.346666666666667, 0.4, 0.36, 0.324, 0.2916,
       0.26244, 0.236196, 0.2125764}},
     {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9}},
    {make_19,
     {{0.01, 0.009, 0.081, 0.0729, 0.06561, 0.059049, 0.0531441, 0.04782969, 0.043046721, 0.0387420489, 0.03486784401,
       0.031381059609, 0.0282429536481},
      {0.04, 0.036, 0.324, 0.2916, 0.26244, 0.236196, 0.2125764, 0.19131876, 0.172186884, 0.1549681956, 0.13947137604,
       0.125524238436, 0.1129718145924}},
     {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9}},
};

/* Steps to the epochs 1, 4, 2, 7, 0, 12: rates of the first group. */
static const struct {
    int which;
    double rate[6];
} to_epochs[] = {
    {2, {0.1, 0.01, 0.1, 0.001, 0.1, 1e-05}},
    {3, {0.1, 0.05, 0.05, 0.0125, 0.1, 0.00625}},
    {4, {0.025, 0.1, 0.025, 0.1, 0.025, 0.1}},
    {6, {0.02, 0.05, 0.03, 0.08, 0.01, 0.08}},
    {7, {0.09, 0.06561, 0.081, 0.04782969, 0.1, 0.0282429536481}},
    {8, {0.0790123456790123, 0.0308641975308642, 0.0604938271604938, 0.00493827160493827, 0.1, 0}},
    {10, {0.0868198051533946, 0.01, 0.055, 0.0868198051533946, 0.1, 0.01}},
    {11, {0.0505, 0.0505, 0.1, 0.0962320368593087, 0.1, 0.0154982143312659}},
};

static tp_schedule *plateau_0(tp_optimiser *o) { return tp_reduce_lr_on_plateau(o, .patience = 1); }
static tp_schedule *plateau_1(tp_optimiser *o) {
    return tp_reduce_lr_on_plateau(o, .threshold = 0.3, .threshold_mode = "abs", .patience = 1, .min_lr = 1e-3);
}
static tp_schedule *plateau_2(tp_optimiser *o) {
    return tp_reduce_lr_on_plateau(o, .mode = "max", .threshold_mode = "abs", .patience = 2);
}
static const double figures[16] = {1.0, 0.9,  0.95, 0.8, 0.85, 0.82, 0.9, 0.5,
                                   0.6, 0.55, 0.7,  0.5, 0.51, 0.52, 0.3, 0.3};
static const struct {
    tp_schedule *(*make)(tp_optimiser *o);
    double rate[16];
} plateaus[] = {
    {plateau_0, {0.1, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.01, 0.001, 0.001, 0.0001, 0.0001, 1e-05, 1e-05, 1e-05}},
    {plateau_1,
     {0.1, 0.1, 0.01, 0.01, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001}},
    {plateau_2,
     {0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.001, 0.001, 0.001, 0.0001, 0.0001, 0.0001, 1e-05, 1e-05, 1e-05, 1e-06}},
};

static tp_optimiser *make_optimiser(void) {
    tp_optimiser *o = tp_sgd(TP_LIST(LEAF(1, 1)), .lr = 0.1, .momentum = 0.9);
    tp_optimiser_add_group(o, TP_LIST(LEAF(1, 1, 1)));
    tp_optimiser_set_option(o, 1, "lr", 0.4);
    return o;
}
static void assert_near(const char *what, int64_t row, int64_t step, double got, double want) {
    if (!(fabs(got - want) <= 1e-12 * fabs(want) + 1e-15))
        fail_msg("%s %d, step %d: got %.17g, expected %.17g", what, (int)row, (int)step, got, want);
}

static void rates_are_pytorchs(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        TP_SCOPE {
            tp_optimiser *o = make_optimiser();
            tp_schedule *s = cases[i].make(o);
            if (!s) fail_msg("schedule %d: %s", (int)i, tp_error());
            for (int step = 0; step <= STEPS; step++) {
                if (step) assert_true(tp_schedule_step(s));
                for (int g = 0; g < 2; g++) {
                    assert_near("schedule", (int64_t)i, step, tp_optimiser_option(o, g, "lr"), cases[i].rate[g][step]);
                    assert_near("last rate of", (int64_t)i, step, tp_schedule_last_lr(s, g), cases[i].rate[g][step]);
                }
                assert_near("momentum of", (int64_t)i, step, tp_optimiser_option(o, 0, "momentum"),
                            cases[i].momentum[step]);
            }
            tp_schedule_free(s);
            tp_optimiser_free(o);
        }
}

static void steps_to_an_epoch(void **state) {
    (void)state;
    const double epochs[] = {1, 4, 2, 7, 0, 12};
    for (size_t i = 0; i < sizeof to_epochs / sizeof *to_epochs; i++)
        TP_SCOPE {
            tp_optimiser *o = make_optimiser();
            tp_schedule *s = cases[to_epochs[i].which].make(o);
            for (int k = 0; k < 6; k++) {
                assert_true(tp_schedule_step_to(s, epochs[k]));
                assert_near("schedule", to_epochs[i].which, k, tp_optimiser_option(o, 0, "lr"), to_epochs[i].rate[k]);
            }
            tp_schedule_free(s);
            tp_optimiser_free(o);
        }
}

static void plateaus_are_noticed(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof plateaus / sizeof *plateaus; i++)
        TP_SCOPE {
            tp_optimiser *o = make_optimiser();
            tp_schedule *s = plateaus[i].make(o);
            for (int k = 0; k < 16; k++) {
                assert_true(tp_schedule_report(s, figures[k]));
                assert_near("plateau", (int64_t)i, k, tp_optimiser_option(o, 0, "lr"), plateaus[i].rate[k]);
            }
            assert_false(tp_schedule_step(s));
            assert_error("is stepped by tp_schedule_report");
            tp_schedule_free(s);
            tp_optimiser_free(o);
        }
}

static void state_goes_on(void **state) {
    (void)state;
    for (size_t i = 0; i < 16; i++)
        TP_SCOPE { /* the combined ones have no numbers of their own */
            tp_optimiser *o = make_optimiser(), *other = make_optimiser();
            tp_schedule *s = cases[i].make(o), *t = cases[i].make(other);
            for (int k = 0; k < 5; k++) assert_true(tp_schedule_step(s));
            int64_t n, m;
            const double *from = tp_schedule_state(s, &n);
            double *to = tp_schedule_state(t, &m);
            assert_int_equal(n, m);
            memcpy(to, from, (size_t)n * sizeof *to);
            for (int g = 0; g < 2; g++) tp_optimiser_set_option(other, g, "lr", tp_optimiser_option(o, g, "lr"));
            for (int k = 0; k < 5; k++)
                assert_true(tp_schedule_step(s) && tp_schedule_step(t) &&
                            tp_optimiser_option(o, 1, "lr") == tp_optimiser_option(other, 1, "lr"));
            tp_schedule_free(s);
            tp_schedule_free(t);
            tp_optimiser_free(o);
            tp_optimiser_free(other);
        }
}

static void bad_options_are_refused(void **state) {
    (void)state;
    TP_SCOPE {
        tp_optimiser *o = make_optimiser(), *adagrad = tp_adagrad(TP_LIST(LEAF(1)));
        assert_null(tp_step_lr(o));
        assert_error("StepLR: option 'step_size' must be given");
        assert_null(tp_step_lr(o, .step_size = 3, .T_max = 1));
        assert_error("StepLR: it has no option 'T_max'");
        assert_null(tp_step_lr(o, .step_size = 3, .last_epoch = 4));
        assert_error("has no initial rate yet");
        assert_null(tp_linear_lr(o, .start_factor = 0));
        assert_error("Starting multiplicative factor");
        assert_null(tp_cyclic_lr(o, .base_lr = 0.1, .max_lr = 1, .mode = "x"));
        assert_error("option 'mode' cannot be 'x'");
        assert_null(tp_one_cycle_lr(adagrad, .max_lr = 0.1, .total_steps = 10));
        assert_error("optimizer must support momentum or beta1");
        assert_null(tp_lambda_lr(o));
        assert_error("option 'lr_lambda' must be given");
        assert_null(tp_chained_scheduler(0, NULL));
        assert_error("at least one");
        tp_schedule *part = tp_exponential_lr(o, .gamma = 0.5);
        assert_null(tp_sequential_lr(o, 1, &part, TP_INTS(1)));
        assert_error("one schedule more than milestones");
        assert_null(tp_sequential_lr(adagrad, 1, &part, tp_no_ints()));
        assert_error("same optimizer");
        assert_false(tp_schedule_report(part, 1));
        assert_error("takes no figures");
        assert_true(isnan(tp_schedule_last_lr(part, 2)));
        assert_error("expected 0 to 1, got 2");
        tp_schedule_free(part);
        tp_schedule_free(NULL);
        tp_schedule *cycle = tp_one_cycle_lr(o, .max_lr = 0.1, .total_steps = 1);
        assert_true(tp_schedule_step(cycle));
        assert_false(tp_schedule_step(cycle));
        assert_error("Tried to step 2 times. The specified number of total steps is 1");
        tp_schedule_free(cycle);
        tp_optimiser_free(o);
        tp_optimiser_free(adagrad);
    }
}

static void swa_rates_are_pytorchs(void **state) {
    (void)state;
    static const double cosine[] = {0.1, 0.08681980515339464, 0.055, 0.02318019484660537, 0.01, 0.01, 0.01};
    static const double line[] = {0.1, 0.0775, 0.055, 0.0325, 0.01, 0.01, 0.01};
    TP_SCOPE {
        for (int k = 0; k < 2; k++) {
            tp_tensor *w = LEAF(1);
            tp_optimiser *o = tp_sgd(TP_LIST(w), .lr = 0.1);
            tp_schedule *s = tp_swa_lr(o, .swa_lr = 0.01, .anneal_epochs = 4, .anneal_strategy = k ? "linear" : "cos");
            for (int i = 0; i < 7; i++) {
                const double want = (k ? line : cosine)[i], got = tp_schedule_last_lr(s, 0);
                if (!(fabs(got - want) < 1e-12)) fail_msg("step %d: got %.17g, expected %.17g", i, got, want);
                tp_set_grad(w, VECTOR(0));
                tp_step(o);
                assert_true(tp_schedule_step(s));
            }
            tp_schedule_free(s);
            assert_null(tp_swa_lr(o, .anneal_epochs = 4));
            assert_error("swa_lr");
            assert_null(tp_swa_lr(o, .swa_lr = 0.1, .anneal_epochs = -1));
            assert_error("anneal_epochs must be equal or greater than 0");
            tp_optimiser_free(o);
        }
    }
}

static void formulas_stand_alone(void **state) {
    (void)state;
    tp_schedule_options o = {TP_SCHEDULE_DEFAULTS_};
    tp_rate_change change = {.size = sizeof change};
    tp_schedule_place place = {.size = sizeof place, .epoch = 6, .steps = 7};
    assert_true(tp_schedule_option(&o, "step_size", 3));
    assert_true(tp_schedule_option(&o, "gamma", 0.5));
    assert_false(tp_schedule_option(&o, "size", 3));
    assert_true(tp_rate_change_at("StepLR", &o, &place, &change));
    assert_true(!change.keep);
    assert_true(!change.from_base);
    assert_true(change.by == 0.5);
    place.closed = true;
    assert_true(tp_rate_change_at("StepLR", &o, &place, &change));
    assert_true(change.from_base);
    assert_true(change.by == 0.25);
    o.step_size = 0;
    assert_false(tp_rate_change_at("StepLR", &o, &place, &change));
    assert_error("StepLR: its options give no finite rate at epoch 6");
    assert_false(tp_rate_change_at("OneCycleLR", &o, &place, &change));
    assert_error("no schedule with such a formula is called 'OneCycleLR'");
    assert_false(tp_restarts_move(&o, &place, -2));
    assert_error("Expected non-negative epoch, but got -2");
}

static void make_and_free(void) {
    TP_SCOPE {
        tp_optimiser *o = make_optimiser();
        for (int i = 0; o && tp_optimiser_groups(o) == 2 && i < 16; i++) tp_schedule_free(cases[i].make(o));
        tp_optimiser_free(o);
    }
}
static void failing_allocations(void **state) {
    (void)state;
    fail_each_allocation(make_and_free);
}

int main(void) {
    const struct CMUnitTest tests[] = {CASE(rates_are_pytorchs),      CASE(steps_to_an_epoch),
                                       CASE(plateaus_are_noticed),    CASE(state_goes_on),
                                       CASE(bad_options_are_refused), CASE(swa_rates_are_pytorchs),
                                       CASE(formulas_stand_alone),    CASE(failing_allocations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
