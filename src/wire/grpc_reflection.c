/* SPDX-License-Identifier: Apache-2.0
 *
 * A question names a file or a symbol, or asks which services there are; each answer repeats it. An answer with a file
 * has the files that this one needs, so that a client asks once. Called by
 * serve/grpc_reflection.c, through the table of grpc_library.c. */
#include "wire/grpc_reflection.h"

#include <string.h>

#include "wire/grpc.h"
#include "wire/grpc_arena.h"
#include "wire/grpc_descriptors.h"
#include "wire/grpc_messages.pb-c.h"

#define QUESTION_MAX 4096 /* longer ones have no answer */
#define ARENA_SIZE (2 * QUESTION_MAX)
#define FILES_MAX 16
#define SERVICES_MAX 16

typedef Grpc__Reflection__V1__ServerReflectionRequest question;
typedef Grpc__Reflection__V1__ServerReflectionResponse answer;

#define ASKS(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##name
#define ANSWERS(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##name

static bool is(ProtobufCBinaryData text, const char *name)
{
    return text.len == strlen(name) && memcmp(text.data, name, text.len) == 0;
}

static ProtobufCBinaryData text_of(const char *text)
{
    return (ProtobufCBinaryData){ .len = strlen(text), .data = (uint8_t *)(uintptr_t)text };
}

static bool has_symbol(const struct weir_grpc_descriptor *file, ProtobufCBinaryData symbol)
{
    for (const char *const *one = file->symbols; *one; one++)
        if (is(symbol, *one))
            return true;
    return false;
}

/* NULL: there is none. */
static const struct weir_grpc_descriptor *find(const question *asked)
{
    const bool by_name = asked->message_request_case == ASKS(FILE_BY_FILENAME);
    for (const struct weir_grpc_descriptor *file = weir_grpc_descriptors; file->name; file++)
        if (by_name ? is(asked->file_by_filename, file->name) : has_symbol(file, asked->file_containing_symbol))
            return file;
    return NULL;
}

static size_t write(const answer *told, uint8_t *buffer)
{
    const size_t size = grpc__reflection__v1__server_reflection_response__get_packed_size(told);
    return size <= WEIR_GRPC_REFLECTION_MAX ? grpc__reflection__v1__server_reflection_response__pack(told, buffer) : 0;
}

static size_t write_error(answer told, enum weir_grpc_status status, const char *text, uint8_t *buffer)
{
    Grpc__Reflection__V1__ErrorResponse error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;
    error.error_code = (int32_t)status;
    error.error_message = text_of(text);
    told.message_response_case = ANSWERS(ERROR_RESPONSE);
    told.error_response = &error;
    return write(&told, buffer);
}

static size_t write_services(answer told, uint8_t *buffer)
{
    Grpc__Reflection__V1__ServiceResponse services[SERVICES_MAX];
    Grpc__Reflection__V1__ServiceResponse *list[SERVICES_MAX];
    Grpc__Reflection__V1__ListServiceResponse all = GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
    for (; weir_grpc_services[all.n_service] && all.n_service < SERVICES_MAX; all.n_service++) {
        grpc__reflection__v1__service_response__init(&services[all.n_service]);
        services[all.n_service].name = text_of(weir_grpc_services[all.n_service]);
        list[all.n_service] = &services[all.n_service];
    }
    all.service = list;
    told.message_response_case = ANSWERS(LIST_SERVICES_RESPONSE);
    told.list_services_response = &all;
    return write(&told, buffer);
}

static size_t write_file(answer told, const struct weir_grpc_descriptor *file, uint8_t *buffer)
{
    ProtobufCBinaryData files[FILES_MAX];
    Grpc__Reflection__V1__FileDescriptorResponse all = GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
    for (const int8_t *needed = file->needed; *needed >= 0 && all.n_file_descriptor_proto < FILES_MAX; needed++) {
        const struct weir_grpc_descriptor *one = &weir_grpc_descriptors[*needed];
        files[all.n_file_descriptor_proto++] = (ProtobufCBinaryData){ .len = one->size,
                                                                      .data = (uint8_t *)(uintptr_t)one->bytes };
    }
    all.file_descriptor_proto = files;
    told.message_response_case = ANSWERS(FILE_DESCRIPTOR_RESPONSE);
    told.file_descriptor_response = &all;
    return write(&told, buffer);
}

size_t weir_grpc_reflection_answer(const uint8_t *data, size_t size, uint8_t buffer[WEIR_GRPC_REFLECTION_MAX])
{
    _Alignas(max_align_t) uint8_t block[ARENA_SIZE];
    struct weir_grpc_arena arena;
    answer told = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    weir_grpc_arena_init(&arena, block, sizeof(block));
    question *asked = size <= QUESTION_MAX
                          ? grpc__reflection__v1__server_reflection_request__unpack(&arena.allocator, size, data)
                          : NULL;
    if (!asked)
        return 0;
    told.valid_host = asked->host;
    told.original_request = asked;
    const struct weir_grpc_descriptor *file;
    switch ((int)asked->message_request_case) {
    case ASKS(LIST_SERVICES):
        return write_services(told, buffer);
    case ASKS(FILE_BY_FILENAME):
    case ASKS(FILE_CONTAINING_SYMBOL):
        file = find(asked);
        return file ? write_file(told, file, buffer)
                    : write_error(told, WEIR_GRPC_NOT_FOUND, "there is none of this name", buffer);
    case ASKS(FILE_CONTAINING_EXTENSION):
    case ASKS(ALL_EXTENSION_NUMBERS_OF_TYPE):
        return write_error(told, WEIR_GRPC_NOT_FOUND, "there are no extensions", buffer);
    default:
        return write_error(told, WEIR_GRPC_INVALID_ARGUMENT, "nothing is asked for", buffer);
    }
}
