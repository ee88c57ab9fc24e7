/* SPDX-License-Identifier: BSD-3-Clause */
/* The names of the runtime's errors. */
#ifndef CUDART_ERROR_NAMES_H
#define CUDART_ERROR_NAMES_H

/* clang-format off */
#define ERROR_NAMES(X) \
    X(cudaSuccess) X(cudaErrorInvalidValue) X(cudaErrorMemoryAllocation) \
    X(cudaErrorInitializationError) X(cudaErrorCudartUnloading) X(cudaErrorProfilerDisabled) \
    X(cudaErrorProfilerNotInitialized) X(cudaErrorProfilerAlreadyStarted) \
    X(cudaErrorProfilerAlreadyStopped) X(cudaErrorInvalidConfiguration) \
    X(cudaErrorInvalidPitchValue) X(cudaErrorInvalidSymbol) X(cudaErrorInvalidHostPointer) \
    X(cudaErrorInvalidDevicePointer) X(cudaErrorInvalidTexture) X(cudaErrorInvalidTextureBinding) \
    X(cudaErrorInvalidChannelDescriptor) X(cudaErrorInvalidMemcpyDirection) \
    X(cudaErrorAddressOfConstant) X(cudaErrorTextureFetchFailed) X(cudaErrorTextureNotBound) \
    X(cudaErrorSynchronizationError) X(cudaErrorInvalidFilterSetting) \
    X(cudaErrorInvalidNormSetting) X(cudaErrorMixedDeviceExecution) X(cudaErrorNotYetImplemented) \
    X(cudaErrorMemoryValueTooLarge) X(cudaErrorStubLibrary) X(cudaErrorInsufficientDriver) \
    X(cudaErrorCallRequiresNewerDriver) X(cudaErrorInvalidSurface) \
    X(cudaErrorDuplicateVariableName) X(cudaErrorDuplicateTextureName) \
    X(cudaErrorDuplicateSurfaceName) X(cudaErrorDevicesUnavailable) \
    X(cudaErrorIncompatibleDriverContext) X(cudaErrorMissingConfiguration) \
    X(cudaErrorPriorLaunchFailure) X(cudaErrorLaunchMaxDepthExceeded) \
    X(cudaErrorLaunchFileScopedTex) X(cudaErrorLaunchFileScopedSurf) \
    X(cudaErrorSyncDepthExceeded) X(cudaErrorLaunchPendingCountExceeded) \
    X(cudaErrorInvalidDeviceFunction) X(cudaErrorNoDevice) X(cudaErrorInvalidDevice) \
    X(cudaErrorDeviceNotLicensed) X(cudaErrorSoftwareValidityNotEstablished) \
    X(cudaErrorStartupFailure) X(cudaErrorInvalidKernelImage) X(cudaErrorDeviceUninitialized) \
    X(cudaErrorMapBufferObjectFailed) X(cudaErrorUnmapBufferObjectFailed) \
    X(cudaErrorArrayIsMapped) X(cudaErrorAlreadyMapped) X(cudaErrorNoKernelImageForDevice) \
    X(cudaErrorAlreadyAcquired) X(cudaErrorNotMapped) X(cudaErrorNotMappedAsArray) \
    X(cudaErrorNotMappedAsPointer) X(cudaErrorECCUncorrectable) X(cudaErrorUnsupportedLimit) \
    X(cudaErrorDeviceAlreadyInUse) X(cudaErrorPeerAccessUnsupported) X(cudaErrorInvalidPtx) \
    X(cudaErrorInvalidGraphicsContext) X(cudaErrorNvlinkUncorrectable) \
    X(cudaErrorJitCompilerNotFound) X(cudaErrorUnsupportedPtxVersion) \
    X(cudaErrorJitCompilationDisabled) X(cudaErrorUnsupportedExecAffinity) \
    X(cudaErrorUnsupportedDevSideSync) X(cudaErrorContained) X(cudaErrorInvalidSource) \
    X(cudaErrorFileNotFound) X(cudaErrorSharedObjectSymbolNotFound) \
    X(cudaErrorSharedObjectInitFailed) X(cudaErrorOperatingSystem) \
    X(cudaErrorInvalidResourceHandle) X(cudaErrorIllegalState) X(cudaErrorLossyQuery) \
    X(cudaErrorSymbolNotFound) X(cudaErrorNotReady) X(cudaErrorIllegalAddress) \
    X(cudaErrorLaunchOutOfResources) X(cudaErrorLaunchTimeout) \
    X(cudaErrorLaunchIncompatibleTexturing) X(cudaErrorPeerAccessAlreadyEnabled) \
    X(cudaErrorPeerAccessNotEnabled) X(cudaErrorSetOnActiveProcess) \
    X(cudaErrorContextIsDestroyed) X(cudaErrorAssert) X(cudaErrorTooManyPeers) \
    X(cudaErrorHostMemoryAlreadyRegistered) X(cudaErrorHostMemoryNotRegistered) \
    X(cudaErrorHardwareStackError) X(cudaErrorIllegalInstruction) X(cudaErrorMisalignedAddress) \
    X(cudaErrorInvalidAddressSpace) X(cudaErrorInvalidPc) X(cudaErrorLaunchFailure) \
    X(cudaErrorCooperativeLaunchTooLarge) X(cudaErrorTensorMemoryLeak) X(cudaErrorNotPermitted) \
    X(cudaErrorNotSupported) X(cudaErrorSystemNotReady) X(cudaErrorSystemDriverMismatch) \
    X(cudaErrorCompatNotSupportedOnDevice) X(cudaErrorMpsConnectionFailed) \
    X(cudaErrorMpsRpcFailure) X(cudaErrorMpsServerNotReady) X(cudaErrorMpsMaxClientsReached) \
    X(cudaErrorMpsMaxConnectionsReached) X(cudaErrorMpsClientTerminated) \
    X(cudaErrorCdpNotSupported) X(cudaErrorCdpVersionMismatch) \
    X(cudaErrorStreamCaptureUnsupported) X(cudaErrorStreamCaptureInvalidated) \
    X(cudaErrorStreamCaptureMerge) X(cudaErrorStreamCaptureUnmatched) \
    X(cudaErrorStreamCaptureUnjoined) X(cudaErrorStreamCaptureIsolation) \
    X(cudaErrorStreamCaptureImplicit) X(cudaErrorCapturedEvent) \
    X(cudaErrorStreamCaptureWrongThread) X(cudaErrorTimeout) X(cudaErrorGraphExecUpdateFailure) \
    X(cudaErrorExternalDevice) X(cudaErrorInvalidClusterSize) X(cudaErrorFunctionNotLoaded) \
    X(cudaErrorInvalidResourceType) X(cudaErrorInvalidResourceConfiguration) X(cudaErrorUnknown) \
    X(cudaErrorApiFailureBase)
/* clang-format on */

static const struct {
    cudaError_t error;
    const char *name;
} error_names[] = {
#define X(e) {e, #e},
    ERROR_NAMES(X)
#undef X
};

#endif
