/* The table of the functions on small matrices. */

#include "calls.h"

#define METHOD(name) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, NULL}

static PyMethodDef methods[] = {
    METHOD(exceed),
    METHOD(inverses),
    METHOD(natural),
    METHOD(merging_terms),
    METHOD(m_step),
    METHOD(log_prior),
    METHOD(common_covariance),
    METHOD(relative_scatter),
    METHOD(retraction),
    METHOD(gradient),
    METHOD(log_marginals),
    METHOD(joint_rotation),
    METHOD(aligned_natural),
    METHOD(aligned_m_step),
    METHOD(aligned_log_prior),
    METHOD(aligned_common_covariance),
    METHOD(aligned_log_marginals),
    METHOD(aligned_gradient),
    METHOD(lbfgs_direction),
    METHOD(spread_rows),
    METHOD(label_stats),
    METHOD(merge_costs),
    METHOD(merge_by_terms),
    METHOD(merge_by_costs),
    METHOD(merge_tree),
    METHOD(added_gains),
    METHOD(maximising),
    METHOD(family_m_step),
    METHOD(plain_run),
    {NULL, NULL, 0, NULL},
};

int add_small_matrices(PyObject *module) { return PyModule_AddFunctions(module, methods); }
