// SPDX-License-Identifier: Apache-2.0
// Finding Open MPI's functions.
#include "comm/mpi/library.h"

#include <dlfcn.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
    // Predefined handles are the addresses of these objects.
    {"ompi_mpi_comm_world", offsetof(lt_mpi_library, world)},
    {"ompi_mpi_byte", offsetof(lt_mpi_library, byte)},
    {"ompi_request_null", offsetof(lt_mpi_library, no_request)},
    {"ompi_mpi_errors_return", offsetof(lt_mpi_library, errors_return)},
    {"MPI_Init_thread", offsetof(lt_mpi_library, init_thread)},
    {"MPI_Comm_set_errhandler", offsetof(lt_mpi_library, set_errhandler)},
    {"MPI_Comm_rank", offsetof(lt_mpi_library, comm_rank)},
    {"MPI_Comm_size", offsetof(lt_mpi_library, comm_size)},
    {"MPI_Isend", offsetof(lt_mpi_library, isend)},
    {"MPI_Irecv", offsetof(lt_mpi_library, irecv)},
    {"MPI_Testall", offsetof(lt_mpi_library, testall)},
    {"MPI_Cancel", offsetof(lt_mpi_library, cancel)},
    {"MPI_Request_free", offsetof(lt_mpi_library, request_free)},
    {"MPI_Error_string", offsetof(lt_mpi_library, error_string)},
    {"MPI_Abort", offsetof(lt_mpi_library, abort)},
    {"MPI_Finalize", offsetof(lt_mpi_library, finalize)},
};

lt_status lt_mpi_library_open(lt_mpi_library *out)
{
    // Its plug-ins look for its symbols among all that are loaded, and it stays until the end.
    void *library = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    if (!library) {
        // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread is there yet
        return LT_FAIL(LT_ERR_NOT_FOUND, "Open MPI's library cannot be opened: %s", dlerror());
    }
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *at = dlsym(library, symbols[i].name);
        if (!at)
            return LT_FAIL(LT_ERR_NOT_FOUND, "libmpi.so.40 has no %s: is it Open MPI's?",
                           symbols[i].name);
        memcpy((char *)out + symbols[i].offset, &at, sizeof at); // C has no cast to a function
    }
    return LT_OK;
}
