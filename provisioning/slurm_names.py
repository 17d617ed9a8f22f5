"""Names of the parameters in slurm.conf(5) of Slurm 24.11 and 26.05; what only one of them knows stands apart."""

# ruff: noqa: SIM905 (lists of hundreds of names read better as text)

#: cluster-wide parameters of both
CLUSTER = frozenset(
    """
    AccountingStorageBackupHost AccountingStorageEnforce AccountingStorageExternalHost AccountingStorageHost
    AccountingStorageParameters AccountingStoragePass AccountingStoragePort AccountingStorageTRES
    AccountingStorageType AccountingStoreFlags AcctGatherEnergyType AcctGatherFilesystemType
    AcctGatherInterconnectType AcctGatherNodeFreq AcctGatherProfileType AllowSpecResourcesUsage
    AuthAltParameters AuthAltTypes AuthInfo AuthType BatchStartTimeout BcastExclude BcastParameters
    BurstBufferType CliFilterPlugins ClusterName CommunicationParameters CompleteWait CpuFreqDef
    CpuFreqGovernors CredType DataParserParameters DebugFlags DefCpuPerGPU DefMemPerCPU DefMemPerGPU
    DefMemPerNode DependencyParameters DisableRootJobs EioTimeout EnforcePartLimits Epilog EpilogMsgTime
    EpilogSlurmctld FairShareDampeningFactor FederationParameters FirstJobId GpuFreqDef GresTypes
    GroupUpdateForce GroupUpdateTime HashPlugin HealthCheckInterval HealthCheckNodeState HealthCheckProgram
    InactiveLimit InteractiveStepOptions JobAcctGatherFrequency JobAcctGatherParams JobAcctGatherType
    JobCompHost JobCompLoc JobCompParams JobCompPass JobCompPort JobCompType JobCompUser JobFileAppend
    JobRequeue JobSubmitPlugins KillOnBadExit KillWait LaunchParameters Licenses LogTimeFormat MailDomain
    MailProg MaxArraySize MaxBatchRequeue MaxDBDMsgs MaxJobCount MaxJobId MaxMemPerCPU MaxMemPerNode
    MaxNodeCount MaxStepCount MaxTasksPerNode MCSParameters MCSPlugin MessageTimeout MinJobAge MpiDefault
    MpiParams NodeFeaturesPlugins OverTimeLimit PluginDir PlugStackConfig PreemptExemptTime PreemptMode
    PreemptParameters PreemptType PrEpParameters PrEpPlugins PriorityCalcPeriod PriorityDecayHalfLife
    PriorityFavorSmall PriorityFlags PriorityMaxAge PriorityParameters PrioritySiteFactorParameters
    PrioritySiteFactorPlugin PriorityType PriorityUsageResetPeriod PriorityWeightAge PriorityWeightAssoc
    PriorityWeightFairshare PriorityWeightJobSize PriorityWeightPartition PriorityWeightQOS PriorityWeightTRES
    PrivateData ProctrackType Prolog PrologEpilogTimeout PrologFlags PrologSlurmctld PropagatePrioProcess
    PropagateResourceLimits PropagateResourceLimitsExcept RebootProgram ReconfigFlags RequeueExit
    RequeueExitHold ResumeFailProgram ResumeProgram ResumeRate ResumeTimeout ResvEpilog ResvOverRun ResvProlog
    ReturnToService SchedulerParameters SchedulerTimeSlice SchedulerType ScronParameters SelectType
    SelectTypeParameters SlurmctldAddr SlurmctldDebug SlurmctldHost SlurmctldLogFile SlurmctldParameters
    SlurmctldPidFile SlurmctldPort SlurmctldPrimaryOffProg SlurmctldPrimaryOnProg SlurmctldSyslogDebug
    SlurmctldTimeout SlurmdDebug SlurmdLogFile SlurmdParameters SlurmdPidFile SlurmdPort SlurmdSpoolDir
    SlurmdSyslogDebug SlurmdTimeout SlurmdUser SlurmSchedLogFile SlurmSchedLogLevel SlurmUser SrunEpilog
    SrunPortRange SrunProlog StateSaveLocation SuspendExcNodes SuspendExcParts SuspendExcStates SuspendProgram
    SuspendRate SuspendTime SuspendTimeout SwitchParameters SwitchType TaskEpilog TaskPlugin TaskPluginParam
    TaskProlog TCPTimeout TmpFS TopologyParam TopologyPlugin TrackWCKey TreeWidth UnkillableStepProgram
    UnkillableStepTimeout UsePAM VSizeFactor WaitTime X11Parameters
    """.split()
)

#: parameters of a NodeName line of both
NODE = frozenset(
    """
    BcastAddr Boards CoreSpecCount CoresPerSocket CpuBind CPUs CpuSpecList Features Gres MemSpecLimit NodeAddr
    NodeHostname NodeName Port Procs RealMemory Reason RestrictedCoresPerGPU Sockets SocketsPerBoard State
    ThreadsPerCore TmpDisk Weight
    """.split()
)

#: parameters of a PartitionName line of both
PARTITION = frozenset(
    """
    AllocNodes AllowAccounts AllowGroups AllowQos Alternate CpuBind Default DefaultTime DefCpuPerGPU
    DefMemPerCPU DefMemPerGPU DefMemPerNode DenyAccounts DenyQos DisableRootJobs GraceTime Hidden LLN
    MaxCPUsPerNode MaxCPUsPerSocket MaxMemPerCPU MaxMemPerNode MaxNodes MaxTime MinNodes Nodes OverSubscribe
    OverTimeLimit PartitionName PowerDownOnIdle PreemptMode PriorityJobFactor PriorityTier QOS ReqResv
    ResumeTimeout RootOnly SelectTypeParameters State SuspendTime SuspendTimeout TRESBillingWeights
    """.split()
)

#: what only one of the two knows
CLUSTER_24_11 = frozenset(
    """
    AccountingStorageUser BackupAddr BackupController ControlAddr ControlMachine GetEnvTimeout JobContainerType
    """.split()
)
CLUSTER_26_05 = frozenset(
    """
    CertgenParameters CertgenType CertmgrParameters CertmgrType CliFilterParameters EpilogTimeout
    HealthCheckTimeout HttpParserType JobCompPassScript LicenseParameters MetricsAuthUsers MetricsParameters
    MetricsType NamespaceType PrologTimeout SlurmctldHttpAuthParameters SlurmdHttpAuthParameters TLSParameters
    TLSType UrlParserType
    """.split()
)
NODE_26_05 = frozenset(
    """
    Parameters SuspendTime Topology
    """.split()
)
PARTITION_24_11 = frozenset(
    """
    ExclusiveTopo ExclusiveUser Shared
    """.split()
)
PARTITION_26_05 = frozenset(
    """
    Exclusive Topology
    """.split()
)

#: words of SchedulerParameters
SCHEDULER = frozenset(
    """
    allow_zero_lic assoc_limit_stop batch_sched_delay bb_array_stage_cnt bf_allow_magnetic_slot bf_busy_nodes
    bf_continue bf_hetjob_immediate bf_hetjob_prio bf_interval bf_job_part_count_reserve bf_licenses
    bf_max_job_array_resv bf_max_job_assoc bf_max_job_part bf_max_job_start bf_max_job_test bf_max_job_user
    bf_max_job_user_part bf_max_time bf_min_age_reserve bf_min_prio_reserve bf_node_space_size
    bf_one_resv_per_job bf_resolution bf_running_job_reserve bf_topopt_enable bf_topopt_iterations bf_window
    bf_window_linear bf_yield_interval bf_yield_rpc_cnt bf_yield_sleep build_queue_timeout
    correspond_after_task_cnt default_queue_depth defer defer_batch delay_boot disable_hetjob_steps
    disable_job_shrink enable_hetjob_steps enable_job_state_cache enable_user_top extra_constraints
    ignore_constraint_validation Ignore_NUMA ignore_prefer_validation max_array_tasks max_rpc_cnt max_sched_time
    max_script_size max_submit_line_size max_switch_wait no_backup_scheduling no_env_cache nohold_on_prolog_fail
    pack_serial_at_end partition_job_depth reduce_completing_frag requeue_delay requeue_on_resume_failure
    requeue_setup_env_fail salloc_wait_nodes sbatch_wait_nodes sched_interval sched_max_job_start
    sched_min_interval spec_cores_first step_retry_count step_retry_time time_min_as_soft_limit whole_hetjob
    """.split()
)

#: words of PreemptParameters
PREEMPT = frozenset(
    """
    min_exempt_priority reclaim_licenses reorder_count send_user_signal strict_order suspend_grace_time
    youngest_first
    """.split()
)

#: words of SelectTypeParameters
SELECT = frozenset(
    """
    CR_Core CR_CORE_DEFAULT_DIST_BLOCK CR_Core_Memory CR_CPU CR_CPU_Memory CR_LLN CR_NO_DIST_TOPO_BLOCK
    CR_ONE_TASK_PER_CORE CR_Pack_Nodes CR_Socket CR_Socket_Memory ENFORCE_BINDING_GRES LL_SHARED_GRES
    MULTIPLE_SHARING_GRES_PJ ONE_TASK_PER_SHARING_GRES
    """.split()
)

#: words of AccountingStorageEnforce
ENFORCE = frozenset(
    """
    all associations limits nojobs nosteps qos safe wckeys
    """.split()
)

#: words of PrivateData
PRIVATE = frozenset(
    """
    accounts events jobs nodes partitions reservations usage users
    """.split()
)
