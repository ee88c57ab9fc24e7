/* SPDX-License-Identifier: BSD-3-Clause */
/* The exports of the runtime that are not supported. */
#ifndef UNSUPPORTED_NAMES_H
#define UNSUPPORTED_NAMES_H

/* clang-format off */
#define UNSUPPORTED(X) \
    X(__cudaGetProcAddress) X(__cudaRegisterHostVar) X(__cudaRegisterManagedVar) \
    X(__cudaRegisterUnifiedTable) X(cudaArrayGetInfo) X(cudaArrayGetMemoryRequirements) \
    X(cudaArrayGetPlane) X(cudaArrayGetSparseProperties) X(cudaChooseDevice) \
    X(cudaCreateSurfaceObject) X(cudaCreateTextureObject) X(cudaCtxResetPersistingL2Cache) \
    X(cudaDestroyExternalMemory) X(cudaDestroyExternalSemaphore) X(cudaDestroySurfaceObject) \
    X(cudaDestroyTextureObject) X(cudaDeviceFlushGPUDirectRDMAWrites) X(cudaDeviceGetByPCIBusId) \
    X(cudaDeviceGetCacheConfig) X(cudaDeviceGetGraphMemAttribute) \
    X(cudaDeviceGetHostAtomicCapabilities) X(cudaDeviceGetLimit) X(cudaDeviceGetMemPool) \
    X(cudaDeviceGetNvSciSyncAttributes) X(cudaDeviceGetP2PAtomicCapabilities) \
    X(cudaDeviceGetSharedMemConfig) X(cudaDeviceGetTexture1DLinearMaxWidth) \
    X(cudaDeviceGraphMemTrim) X(cudaDeviceRegisterAsyncNotification) X(cudaDeviceReset) \
    X(cudaDeviceSetCacheConfig) X(cudaDeviceSetGraphMemAttribute) X(cudaDeviceSetLimit) \
    X(cudaDeviceSetMemPool) X(cudaDeviceSetSharedMemConfig) \
    X(cudaDeviceUnregisterAsyncNotification) X(cudaEGLStreamConsumerAcquireFrame) \
    X(cudaEGLStreamConsumerConnect) X(cudaEGLStreamConsumerConnectWithFlags) \
    X(cudaEGLStreamConsumerDisconnect) X(cudaEGLStreamConsumerReleaseFrame) \
    X(cudaEGLStreamProducerConnect) X(cudaEGLStreamProducerDisconnect) \
    X(cudaEGLStreamProducerPresentFrame) X(cudaEGLStreamProducerReturnFrame) \
    X(cudaEventCreateFromEGLSync) X(cudaExternalMemoryGetMappedBuffer) \
    X(cudaExternalMemoryGetMappedMipmappedArray) X(cudaFreeArray) X(cudaFreeMipmappedArray) \
    X(cudaFuncGetParamInfo) X(cudaFuncSetCacheConfig) X(cudaFuncSetSharedMemConfig) \
    X(cudaGLGetDevices) X(cudaGLMapBufferObject) X(cudaGLMapBufferObjectAsync) \
    X(cudaGLRegisterBufferObject) X(cudaGLSetBufferObjectMapFlags) X(cudaGLSetGLDevice) \
    X(cudaGLUnmapBufferObject) X(cudaGLUnmapBufferObjectAsync) X(cudaGLUnregisterBufferObject) \
    X(cudaGetChannelDesc) X(cudaGetDeviceFlags) X(cudaGetDriverEntryPoint) \
    X(cudaGetDriverEntryPoint_ptsz) X(cudaGetExportTable) X(cudaGetMipmappedArrayLevel) \
    X(cudaGetSurfaceObjectResourceDesc) X(cudaGetTextureObjectResourceDesc) \
    X(cudaGetTextureObjectResourceViewDesc) X(cudaGetTextureObjectTextureDesc) \
    X(cudaGraphAddChildGraphNode) X(cudaGraphAddDependencies) X(cudaGraphAddEmptyNode) \
    X(cudaGraphAddEventRecordNode) X(cudaGraphAddEventWaitNode) \
    X(cudaGraphAddExternalSemaphoresSignalNode) X(cudaGraphAddExternalSemaphoresWaitNode) \
    X(cudaGraphAddHostNode) X(cudaGraphAddKernelNode) X(cudaGraphAddMemAllocNode) \
    X(cudaGraphAddMemFreeNode) X(cudaGraphAddMemcpyNode) X(cudaGraphAddMemcpyNode1D) \
    X(cudaGraphAddMemcpyNodeFromSymbol) X(cudaGraphAddMemcpyNodeToSymbol) \
    X(cudaGraphAddMemsetNode) X(cudaGraphAddNode) X(cudaGraphChildGraphNodeGetGraph) \
    X(cudaGraphClone) X(cudaGraphConditionalHandleCreate) X(cudaGraphCreate) \
    X(cudaGraphDebugDotPrint) X(cudaGraphDestroyNode) X(cudaGraphEventRecordNodeGetEvent) \
    X(cudaGraphEventRecordNodeSetEvent) X(cudaGraphEventWaitNodeGetEvent) \
    X(cudaGraphEventWaitNodeSetEvent) X(cudaGraphExecChildGraphNodeSetParams) \
    X(cudaGraphExecEventRecordNodeSetEvent) X(cudaGraphExecEventWaitNodeSetEvent) \
    X(cudaGraphExecExternalSemaphoresSignalNodeSetParams) \
    X(cudaGraphExecExternalSemaphoresWaitNodeSetParams) X(cudaGraphExecGetFlags) \
    X(cudaGraphExecHostNodeSetParams) X(cudaGraphExecKernelNodeSetParams) \
    X(cudaGraphExecMemcpyNodeSetParams) X(cudaGraphExecMemcpyNodeSetParams1D) \
    X(cudaGraphExecMemcpyNodeSetParamsFromSymbol) X(cudaGraphExecMemcpyNodeSetParamsToSymbol) \
    X(cudaGraphExecMemsetNodeSetParams) X(cudaGraphExecNodeSetParams) X(cudaGraphExecUpdate) \
    X(cudaGraphExternalSemaphoresSignalNodeGetParams) \
    X(cudaGraphExternalSemaphoresSignalNodeSetParams) \
    X(cudaGraphExternalSemaphoresWaitNodeGetParams) \
    X(cudaGraphExternalSemaphoresWaitNodeSetParams) X(cudaGraphGetEdges) X(cudaGraphGetRootNodes) \
    X(cudaGraphHostNodeGetParams) X(cudaGraphHostNodeSetParams) X(cudaGraphInstantiateWithParams) \
    X(cudaGraphInstantiateWithParams_ptsz) X(cudaGraphKernelNodeCopyAttributes) \
    X(cudaGraphKernelNodeGetAttribute) X(cudaGraphKernelNodeGetParams) \
    X(cudaGraphKernelNodeSetAttribute) X(cudaGraphKernelNodeSetParams) \
    X(cudaGraphMemAllocNodeGetParams) X(cudaGraphMemFreeNodeGetParams) \
    X(cudaGraphMemcpyNodeGetParams) X(cudaGraphMemcpyNodeSetParams) \
    X(cudaGraphMemcpyNodeSetParams1D) X(cudaGraphMemcpyNodeSetParamsFromSymbol) \
    X(cudaGraphMemcpyNodeSetParamsToSymbol) X(cudaGraphMemsetNodeGetParams) \
    X(cudaGraphMemsetNodeSetParams) X(cudaGraphNodeFindInClone) X(cudaGraphNodeGetDependencies) \
    X(cudaGraphNodeGetDependentNodes) X(cudaGraphNodeGetEnabled) X(cudaGraphNodeGetType) \
    X(cudaGraphNodeSetEnabled) X(cudaGraphNodeSetParams) X(cudaGraphReleaseUserObject) \
    X(cudaGraphRemoveDependencies) X(cudaGraphRetainUserObject) X(cudaGraphUpload) \
    X(cudaGraphUpload_ptsz) X(cudaGraphicsEGLRegisterImage) X(cudaGraphicsGLRegisterBuffer) \
    X(cudaGraphicsGLRegisterImage) X(cudaGraphicsMapResources) \
    X(cudaGraphicsResourceGetMappedEglFrame) X(cudaGraphicsResourceGetMappedMipmappedArray) \
    X(cudaGraphicsResourceGetMappedPointer) X(cudaGraphicsResourceSetMapFlags) \
    X(cudaGraphicsSubResourceGetMappedArray) X(cudaGraphicsUnmapResources) \
    X(cudaGraphicsUnregisterResource) X(cudaGraphicsVDPAURegisterOutputSurface) \
    X(cudaGraphicsVDPAURegisterVideoSurface) X(cudaImportExternalMemory) \
    X(cudaImportExternalSemaphore) X(cudaInitDevice) X(cudaIpcGetEventHandle) \
    X(cudaIpcOpenEventHandle) X(cudaLibraryEnumerateKernels) X(cudaLibraryGetGlobal) \
    X(cudaLibraryGetKernel) X(cudaLibraryGetKernelCount) X(cudaLibraryGetManaged) \
    X(cudaLibraryGetUnifiedFunction) X(cudaLibraryLoadData) X(cudaLibraryLoadFromFile) \
    X(cudaLibraryUnload) X(cudaLogsCurrent) X(cudaLogsDumpToFile) X(cudaLogsDumpToMemory) \
    X(cudaLogsRegisterCallback) X(cudaLogsUnregisterCallback) X(cudaMalloc3D) \
    X(cudaMalloc3DArray) X(cudaMallocArray) X(cudaMallocMipmappedArray) X(cudaMallocPitch) \
    X(cudaMemAdvise) X(cudaMemDiscardAndPrefetchBatchAsync) \
    X(cudaMemDiscardAndPrefetchBatchAsync_ptsz) X(cudaMemDiscardBatchAsync) \
    X(cudaMemDiscardBatchAsync_ptsz) X(cudaMemGetDefaultMemPool) X(cudaMemGetMemPool) \
    X(cudaMemPoolCreate) X(cudaMemPoolDestroy) X(cudaMemPoolExportPointer) \
    X(cudaMemPoolExportToShareableHandle) X(cudaMemPoolGetAccess) X(cudaMemPoolGetAttribute) \
    X(cudaMemPoolImportFromShareableHandle) X(cudaMemPoolImportPointer) X(cudaMemPoolSetAccess) \
    X(cudaMemPoolSetAttribute) X(cudaMemPoolTrimTo) X(cudaMemPrefetchAsync) \
    X(cudaMemPrefetchAsync_ptsz) X(cudaMemPrefetchBatchAsync) X(cudaMemPrefetchBatchAsync_ptsz) \
    X(cudaMemRangeGetAttribute) X(cudaMemRangeGetAttributes) X(cudaMemSetMemPool) \
    X(cudaMemcpy2DArrayToArray) X(cudaMemcpy2DArrayToArray_ptds) X(cudaMemcpy2DFromArray) \
    X(cudaMemcpy2DFromArrayAsync) X(cudaMemcpy2DFromArrayAsync_ptsz) \
    X(cudaMemcpy2DFromArray_ptds) X(cudaMemcpy2DToArray) X(cudaMemcpy2DToArrayAsync) \
    X(cudaMemcpy2DToArrayAsync_ptsz) X(cudaMemcpy2DToArray_ptds) X(cudaMemcpy3D) \
    X(cudaMemcpy3DAsync) X(cudaMemcpy3DAsync_ptsz) X(cudaMemcpy3DBatchAsync) \
    X(cudaMemcpy3DBatchAsync_ptsz) X(cudaMemcpy3DPeer) X(cudaMemcpy3DPeerAsync) \
    X(cudaMemcpy3DPeerAsync_ptsz) X(cudaMemcpy3DPeer_ptds) X(cudaMemcpy3D_ptds) \
    X(cudaMemcpyArrayToArray) X(cudaMemcpyArrayToArray_ptds) X(cudaMemcpyBatchAsync) \
    X(cudaMemcpyBatchAsync_ptsz) X(cudaMemcpyFromArray) X(cudaMemcpyFromArrayAsync) \
    X(cudaMemcpyFromArrayAsync_ptsz) X(cudaMemcpyFromArray_ptds) X(cudaMemcpyToArray) \
    X(cudaMemcpyToArrayAsync) X(cudaMemcpyToArrayAsync_ptsz) X(cudaMemcpyToArray_ptds) \
    X(cudaMemset2D) X(cudaMemset2DAsync) X(cudaMemset2DAsync_ptsz) X(cudaMemset2D_ptds) \
    X(cudaMemset3D) X(cudaMemset3DAsync) X(cudaMemset3DAsync_ptsz) X(cudaMemset3D_ptds) \
    X(cudaMipmappedArrayGetMemoryRequirements) X(cudaMipmappedArrayGetSparseProperties) \
    X(cudaOccupancyAvailableDynamicSMemPerBlock) X(cudaOccupancyMaxActiveClusters) \
    X(cudaOccupancyMaxPotentialClusterSize) X(cudaSetDeviceFlags) X(cudaSetValidDevices) \
    X(cudaSignalExternalSemaphoresAsync) X(cudaSignalExternalSemaphoresAsync_ptsz) \
    X(cudaStreamAttachMemAsync) X(cudaStreamAttachMemAsync_ptsz) X(cudaStreamBeginCaptureToGraph) \
    X(cudaStreamBeginCaptureToGraph_ptsz) X(cudaStreamCopyAttributes) \
    X(cudaStreamCopyAttributes_ptsz) X(cudaStreamGetAttribute) X(cudaStreamGetAttribute_ptsz) \
    X(cudaStreamGetId) X(cudaStreamGetId_ptsz) X(cudaStreamSetAttribute) \
    X(cudaStreamSetAttribute_ptsz) X(cudaStreamUpdateCaptureDependencies) \
    X(cudaStreamUpdateCaptureDependencies_ptsz) X(cudaUserObjectCreate) X(cudaUserObjectRelease) \
    X(cudaUserObjectRetain) X(cudaVDPAUGetDevice) X(cudaVDPAUSetVDPAUDevice) \
    X(cudaWaitExternalSemaphoresAsync) X(cudaWaitExternalSemaphoresAsync_ptsz)
/* clang-format on */

#endif
