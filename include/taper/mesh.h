/* Meshes: the ranks of a job as a grid, with a group along each of its dims. A mesh of (2, 4) has two rows of four: the
 * groups along dim 1 are the rows, those along dim 0 the columns.
 *
 *     tp_mesh *mesh = tp_mesh_new(TP_INTS(2, 4));
 *     tp_fsdp *fsdp = tp_fsdp_new(net, .group = tp_mesh_group(mesh, 1));   // parts within a row
 */
#ifndef TAPER_MESH_H
#define TAPER_MESH_H
#include <taper/dist.h>

TP_BEGIN

typedef struct tp_mesh tp_mesh;
/* Of all ranks of the job, in their order, the last dim fastest; the shape's product is their number. All ranks make
 * the call. */
TP_API tp_mesh *tp_mesh_new(tp_ints shape);
TP_API int64_t tp_mesh_dims(const tp_mesh *mesh); /* -1: failed */
TP_API int64_t tp_mesh_size(const tp_mesh *mesh, int64_t dim);
TP_API int64_t tp_mesh_place(const tp_mesh *mesh, int64_t dim);   /* this rank's coordinate */
TP_API tp_group *tp_mesh_group(const tp_mesh *mesh, int64_t dim); /* that this rank is in, along the dim; borrowed */
TP_API void tp_mesh_free(tp_mesh *mesh);                          /* and its groups; NULL is fine */

/* The ranks of the job in groups of that many neighbours; this rank's. All ranks make the call. tp_group_free it. */
TP_API tp_group *tp_group_new_subgroups(int64_t size, double timeout);

TP_END
#endif
