/* Ask an export without Python: TensorFlow's C API loads it, takes strings and prints the answers.

     tf=$(python -c 'import os, tensorflow as tf; print(os.path.dirname(tf.__file__))')
     gcc -std=c11 -O1 recipes/serve_check.c -I$tf/include -L$tf -Wl,-rpath,$tf \
         -l:libtensorflow_cc.so.2 -l:libtensorflow_framework.so.2 -o serve_check
     ops=$tf/../tensorflow_text/python/ops
     ./serve_check served/albert/1 $ops/_sentencepiece_tokenizer.so $ops/_normalize_ops.so \
         -- text "not bad" "dreadful"

   Before the first "--" stand the version directory and the libraries of tensorflow-text's ops that
   the export needs (`keras_albert/export/allowed_ops.py` lists them); after each "--" an input of
   one axis and its strings. Prints a line for each output: name, shape, values, bytes that are not
   printable as \xHH. It stands for a server that links both libraries, as TensorFlow Serving does. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"

#define SIGNATURE "serving_default"
#define MOST 16 /* inputs, or outputs */

static TF_Status *status;

static void die(const char *what, const char *why) {
  fprintf(stderr, "serve_check: %s: %s\n", what, why);
  exit(1);
}

static void check(const char *what) {
  if (TF_GetCode(status) != TF_OK) die(what, TF_Message(status));
}

/* A protocol buffer that is read field by field: strings and messages alone are kept. */
typedef struct {
  const uint8_t *at, *end;
} Bytes;

static uint64_t varint(Bytes *from) {
  uint64_t value = 0;
  for (int shift = 0; from->at < from->end && shift < 64; shift += 7) {
    uint8_t byte = *from->at++;
    value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return value;
  }
  die("the graph's description", "a number is cut short");
  return 0;
}

static int next(Bytes *from, Bytes *content) {
  /* The next field's number and content, 0 at the end. */
  if (from->at >= from->end) return 0;
  uint64_t tag = varint(from), size = 0;
  switch (tag & 7) {
    case 0: varint(from); break;
    case 1: size = 8; break;
    case 2: size = varint(from); break;
    case 5: size = 4; break;
    default: die("the graph's description", "an unknown kind of field");
  }
  if (size > (uint64_t)(from->end - from->at)) die("the graph's description", "it is cut short");
  *content = (Bytes){from->at, from->at + size};
  from->at += size;
  return (int)(tag >> 3);
}

static int equals(Bytes bytes, const char *text) {
  size_t size = (size_t)(bytes.end - bytes.at);
  return size == strlen(text) && !memcmp(bytes.at, text, size);
}

/* A tensor of the signature: its name there, and where it is in the graph. */
typedef struct {
  char name[128];
  TF_Output place;
} Tensor;

static void copy(char *to, size_t room, Bytes from) {
  size_t size = (size_t)(from.end - from.at);
  if (size >= room) die("the signature", "a name is too long");
  memcpy(to, from.at, size);
  to[size] = 0;
}

static Tensor read_tensor(Bytes entry, TF_Graph *graph) {
  /* An entry of a map of names to TensorInfo, whose first field is "operation:index". */
  Tensor tensor = {"", {NULL, 0}};
  Bytes field, inner;
  for (int number; (number = next(&entry, &field));) {
    if (number == 1) copy(tensor.name, sizeof tensor.name, field);
    if (number != 2) continue;
    for (int of_info; (of_info = next(&field, &inner));) {
      if (of_info != 1) continue;
      char place[256];
      copy(place, sizeof place, inner);
      char *colon = strrchr(place, ':');
      if (colon) *colon = 0;
      tensor.place.oper = TF_GraphOperationByName(graph, place);
      tensor.place.index = colon ? atoi(colon + 1) : 0;
      if (!tensor.place.oper) die(place, "no such operation in the graph");
    }
  }
  return tensor;
}

static void read_signature(const TF_Buffer *meta, TF_Graph *graph, Tensor *inputs, int *num_inputs,
                           Tensor *outputs, int *num_outputs) {
  Bytes graph_def = {meta->data, (const uint8_t *)meta->data + meta->length}, entry, field, tensor;
  for (int number; (number = next(&graph_def, &entry));) {
    if (number != 5) continue; /* MetaGraphDef.signature_def, a map */
    int is_ours = 0;
    for (int part; (part = next(&entry, &field));) {
      if (part == 1) is_ours = equals(field, SIGNATURE);
      if (part != 2 || !is_ours) continue;
      for (int side; (side = next(&field, &tensor));) {
        if (side == 1 && *num_inputs < MOST)
          inputs[(*num_inputs)++] = read_tensor(tensor, graph);
        if (side == 2 && *num_outputs < MOST)
          outputs[(*num_outputs)++] = read_tensor(tensor, graph);
      }
    }
  }
  if (!*num_inputs || !*num_outputs) die("the export", "it has no signature " SIGNATURE);
}

static TF_Tensor *strings(char **values, int count) {
  int64_t shape[] = {count};
  TF_Tensor *tensor = TF_AllocateTensor(TF_STRING, shape, 1, (size_t)count * sizeof(TF_TString));
  TF_TString *data = TF_TensorData(tensor);
  for (int i = 0; i < count; i++) {
    TF_StringInit(&data[i]);
    TF_StringCopy(&data[i], values[i], strlen(values[i]));
  }
  return tensor;
}

static void print_string(const TF_TString *string) {
  const char *bytes = TF_StringGetDataPointer(string);
  putchar('"');
  for (size_t i = 0; i < TF_StringGetSize(string); i++) {
    unsigned char byte = (unsigned char)bytes[i];
    if (byte < 32 || byte > 126 || byte == '"' || byte == '\\') printf("\\x%02x", byte);
    else putchar(byte);
  }
  putchar('"');
}

static void print(const char *name, const TF_Tensor *tensor) {
  printf("%s [", name);
  int64_t count = TF_TensorElementCount(tensor);
  for (int axis = 0; axis < TF_NumDims(tensor); axis++)
    printf("%s%" PRId64, axis ? ", " : "", TF_Dim(tensor, axis));
  printf("]");
  const void *data = TF_TensorData(tensor);
  for (int64_t i = 0; i < count; i++) {
    putchar(' ');
    switch (TF_TensorType(tensor)) {
      case TF_FLOAT: printf("%.9g", ((const float *)data)[i]); break;
      case TF_INT32: printf("%" PRId32, ((const int32_t *)data)[i]); break;
      case TF_BOOL: printf("%d", ((const uint8_t *)data)[i]); break;
      case TF_STRING: print_string(&((const TF_TString *)data)[i]); break;
      default: die(name, "an output of a type that is not expected");
    }
  }
  putchar('\n');
}

int main(int argc, char **argv) {
  if (argc < 2) die("usage", "serve_check EXPORT [LIBRARY ...] -- INPUT STRING ... [-- ...]");
  status = TF_NewStatus();
  int at = 2;
  for (; at < argc && strcmp(argv[at], "--"); at++) {
    TF_LoadLibrary(argv[at], status);
    check(argv[at]);
  }

  TF_Graph *graph = TF_NewGraph();
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Buffer *meta = TF_NewBuffer();
  const char *tags[] = {"serve"};
  TF_Session *session = TF_LoadSessionFromSavedModel(options, NULL, argv[1], tags, 1, graph, meta,
                                                     status);
  check(argv[1]);
  Tensor inputs[MOST], outputs[MOST];
  int num_inputs = 0, num_outputs = 0;
  read_signature(meta, graph, inputs, &num_inputs, outputs, &num_outputs);

  TF_Output fed[MOST], asked[MOST];
  TF_Tensor *values[MOST], *answers[MOST];
  int num_fed = 0;
  while (at < argc) {
    if (++at >= argc) die("--", "an input's name must follow");
    const char *name = argv[at++];
    int first = at, which = 0;
    while (at < argc && strcmp(argv[at], "--")) at++;
    while (which < num_inputs && strcmp(inputs[which].name, name)) which++;
    if (which == num_inputs || num_fed == MOST) die(name, "the signature has no such input");
    fed[num_fed] = inputs[which].place;
    values[num_fed++] = strings(argv + first, at - first);
  }
  for (int i = 0; i < num_outputs; i++) asked[i] = outputs[i].place;
  TF_SessionRun(session, NULL, fed, values, num_fed, asked, answers, num_outputs, NULL, 0, NULL,
                status);
  check("the request");
  for (int i = 0; i < num_outputs; i++) {
    print(outputs[i].name, answers[i]);
    TF_DeleteTensor(answers[i]);
  }

  for (int i = 0; i < num_fed; i++) TF_DeleteTensor(values[i]);
  TF_CloseSession(session, status);
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteBuffer(meta);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return 0;
}
