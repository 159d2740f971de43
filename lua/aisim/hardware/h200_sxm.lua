-- NVIDIA H200 SXM, one 8-GPU node with NVLink.
-- Keys: `aisim help hardware`. Sources: [ds] H200 data sheet, [sys] system description of the public
-- aiconfigurator project (Apache-2.0), whose measured tables go with these figures.
return {
  name = "h200_sxm",
  aliases = {
    "h200",
  },
  memory_bytes = 151397597184, -- [ds] 141 GiB
  memory_bytes_per_s = 4.8e12, -- [ds]
  elementwise_efficiency = 0.8, -- [sys] share of the bandwidth that element-wise kernels reach
  elementwise_launch_us = 3.0, -- [sys]
  bf16_flops = 989e12, -- [ds] dense
  fp8_flops = 1978e12, -- [ds] dense
  int8_flops = 1978e12, -- [ds] dense
  link_bytes_per_s = 450e9, -- [ds] NVLink 4, one direction
  node_bytes_per_s = 50e9, -- [sys] 400 Gbit/s per GPU
  pipeline_hop_us = 10, -- [sys]
  host_bytes_per_s = 64e9, -- [ds] PCIe 5 x16, one direction
  gpus_per_node = 8, -- [ds] HGX board
  runtime_bytes = 3758096384, -- [sys] 3.5 GiB
  collective_bytes_tp2 = 358612992, -- [sys] NCCL buffers, group of 2
  collective_bytes_tp4 = 411041792, -- [sys] group of 4
  collective_bytes_tp8 = 411041792, -- [sys] group of 8
  power_watts = 700, -- [ds]
}
