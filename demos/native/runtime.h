/* The part of ONNX Runtime's C API that step.c and step.cpp call, under its own names.

   With onnxruntime_c_api.h of ONNX Runtime at hand, include that instead: nothing else changes.
   OrtApi is a table of functions that versions only append to, and these have been in it since the
   first; `other…` are those that are not called here. On Windows the functions are __stdcall, and
   paths are wchar_t: take the header there. */
#ifndef RUNTIME_H
#define RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ORT_API_VERSION 1

typedef struct OrtStatus OrtStatus; /* 0 is success */
typedef struct OrtEnv OrtEnv;
typedef struct OrtSession OrtSession;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtRunOptions OrtRunOptions;
typedef struct OrtValue OrtValue;
typedef struct OrtMemoryInfo OrtMemoryInfo;
typedef struct OrtAllocator OrtAllocator;
typedef struct OrtModelMetadata OrtModelMetadata;
typedef struct OrtTensorTypeAndShapeInfo OrtTensorTypeAndShapeInfo;

typedef enum { ORT_LOGGING_LEVEL_WARNING = 2 } OrtLoggingLevel;
typedef enum { OrtArenaAllocator = 1 } OrtAllocatorType;
typedef enum { OrtMemTypeDefault = 0 } OrtMemType;
typedef enum {
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 = 7
} ONNXTensorElementDataType;

typedef struct OrtApi {
  void *other0[2];
  const char *(*GetErrorMessage)(const OrtStatus *); /* 2 */
  OrtStatus *(*CreateEnv)(OrtLoggingLevel, const char *name, OrtEnv **);
  void *other4[3];
  OrtStatus *(*CreateSession)(const OrtEnv *, const char *path, const OrtSessionOptions *, OrtSession **);
  void *other8;
  OrtStatus *(*Run)(OrtSession *, const OrtRunOptions *, const char *const *input_names, /* 9 */
                    const OrtValue *const *inputs, size_t, const char *const *output_names, size_t,
                    OrtValue **outputs);
  OrtStatus *(*CreateSessionOptions)(OrtSessionOptions **);
  void *other11[19];
  OrtStatus *(*SessionGetInputCount)(const OrtSession *, size_t *); /* 30 */
  OrtStatus *(*SessionGetOutputCount)(const OrtSession *, size_t *);
  void *other32[4];
  OrtStatus *(*SessionGetInputName)(const OrtSession *, size_t, OrtAllocator *, char **);
  OrtStatus *(*SessionGetOutputName)(const OrtSession *, size_t, OrtAllocator *, char **);
  void *other38[11];
  OrtStatus *(*CreateTensorWithDataAsOrtValue)(const OrtMemoryInfo *, void *data, size_t bytes, /* 49 */
                                               const int64_t *shape, size_t rank,
                                               ONNXTensorElementDataType, OrtValue **);
  void *other50;
  OrtStatus *(*GetTensorMutableData)(OrtValue *, void **);
  void *other52[8];
  OrtStatus *(*GetTensorElementType)(const OrtTensorTypeAndShapeInfo *, ONNXTensorElementDataType *); /* 60 */
  OrtStatus *(*GetDimensionsCount)(const OrtTensorTypeAndShapeInfo *, size_t *);
  OrtStatus *(*GetDimensions)(const OrtTensorTypeAndShapeInfo *, int64_t *, size_t);
  void *other63;
  OrtStatus *(*GetTensorShapeElementCount)(const OrtTensorTypeAndShapeInfo *, size_t *);
  OrtStatus *(*GetTensorTypeAndShape)(const OrtValue *, OrtTensorTypeAndShapeInfo **);
  void *other66[3];
  OrtStatus *(*CreateCpuMemoryInfo)(OrtAllocatorType, OrtMemType, OrtMemoryInfo **);
  void *other70[6];
  OrtStatus *(*AllocatorFree)(OrtAllocator *, void *); /* 76 */
  void *other77;
  OrtStatus *(*GetAllocatorWithDefaultOptions)(OrtAllocator **);
  void *other79[13];
  void (*ReleaseEnv)(OrtEnv *); /* 92 */
  void (*ReleaseStatus)(OrtStatus *);
  void (*ReleaseMemoryInfo)(OrtMemoryInfo *);
  void (*ReleaseSession)(OrtSession *);
  void (*ReleaseValue)(OrtValue *);
  void *other97[2];
  void (*ReleaseTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo *);
  void (*ReleaseSessionOptions)(OrtSessionOptions *); /* 100 */
  void *other101[10];
  OrtStatus *(*SessionGetModelMetadata)(const OrtSession *, OrtModelMetadata **);
  void *other112[4];
  OrtStatus *(*ModelMetadataLookupCustomMetadataMap)(const OrtModelMetadata *, OrtAllocator *, /* 116 */
                                                     const char *key, char **value);
  void *other117;
  void (*ReleaseModelMetadata)(OrtModelMetadata *);
} OrtApi;

typedef struct OrtApiBase {
  const OrtApi *(*GetApi)(uint32_t version);
  const char *(*GetVersionString)(void);
} OrtApiBase;

const OrtApiBase *OrtGetApiBase(void);

#ifdef __cplusplus
}
#endif
#endif
