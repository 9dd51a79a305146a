/* taper._C: the extension module. Each file of this folder adds its functions and types. */
#include "tpy.h"

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "taper._C", "Taper's tensors and operators for Python.", -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__C(void) {
    PyObject *module = PyModule_Create(&definition);
    if (!module) return NULL;
    int (*const parts[])(PyObject *) = {tpy_init_error,    tpy_init_types,    tpy_init_tensor,
                                        tpy_init_override, tpy_init_random,   tpy_init_operators,
                                        tpy_init_make,     tpy_init_array,    tpy_init_read,
                                        tpy_init_convert,  tpy_init_storage,  tpy_init_files,
                                        tpy_init_legacy,   tpy_init_dlpack,   tpy_init_autograd,
                                        tpy_init_settings, tpy_init_defaults, tpy_init_nn,
                                        tpy_init_amp,      tpy_init_profile,  tpy_init_events,
                                        tpy_init_clip,     tpy_init_optim,    tpy_init_media,
                                        tpy_init_graph,    tpy_init_data,     tpy_init_dist,
                                        tpy_init_gpu,      tpy_init_streams,  tpy_init_extension,
                                        tpy_init_schedule, tpy_init_reducer,  tpy_init_checkpoint_plan,
                                        tpy_init_script};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i](module) == 0) continue;
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
