"use strict";
// Replaces each static figure by a chart of all its data. What fails leaves the static one.
(() => {
  const number = (value) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    const size = Math.abs(value);
    const digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
    return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  };
  const escape = (text) => echarts.format.encodeHTML(String(text));
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const dark = matchMedia("(prefers-color-scheme: dark)");

  const tooltip = () => ({
    backgroundColor: css("--card"),
    borderColor: css("--line"),
    confine: true,
    textStyle: { color: css("--ink"), fontSize: 12, fontFamily: css("--sans") },
    extraCssText: "max-width:20rem;white-space:normal",
  });
  const base = (title) => ({
    animation: false,
    aria: { enabled: true, label: { description: title } },
    textStyle: { fontFamily: css("--sans"), color: css("--ink") },
  });

  function lines(data, width) {
    const narrow = width < 560;
    const label = { color: css("--soft"), fontSize: 12 };
    const first = {
      markArea: data.warmUp > data.times[0] ? {
        silent: true,
        itemStyle: { color: css("--faint") },
        label: { color: css("--soft"), position: "insideTop" },
        data: [[{ name: "warm-up", xAxis: data.times[0] }, { xAxis: data.warmUp }]],
      } : undefined,
      markLine: data.steps.length ? {
        symbol: "none",
        silent: true,
        label: { show: !narrow, formatter: "changed", color: css("--loss") },
        lineStyle: { color: css("--loss"), type: "solid", width: 1.5 },
        data: data.steps.map((at) => ({ xAxis: at })),
      } : undefined,
    };
    const series = data.lines.map((line, index) => ({
      type: "line",
      name: line.name,
      showSymbol: false,
      sampling: "lttb",
      z: 3,
      lineStyle: { width: 1.4 },
      color: css(line.color),
      data: data.times.map((at, epoch) => [at, line.values[epoch]]),
      ...(index === 0 ? first : {}),
    }));
    if (data.trend.length) {
      series.push({
        type: "line",
        name: data.trendName,
        symbol: "none",
        z: 4,
        color: css("--ink"),
        lineStyle: { width: 2, type: "dashed" },
        data: data.trend,
      });
    }
    const legend = series.length > 1;
    return {
      ...base(`${data.title}, ${data.unit}, of every epoch`),
      grid: { left: narrow ? 44 : 58, right: 12, top: legend ? 34 : 14, bottom: data.last ? 74 : 42 },
      legend: legend ? { type: "scroll", top: 0, left: 0, icon: "roundRect", itemHeight: 3, itemWidth: 18,
        textStyle: { color: css("--soft") }, pageTextStyle: { color: css("--soft") },
        pageIconColor: css("--ink"), pageIconInactiveColor: css("--line") } : undefined,
      tooltip: { ...tooltip(), trigger: "axis", formatter: (found) => {
        const head = `${number(found[0].value[0])} ${escape(data.timeUnit)}`;
        const rows = found.map((f) => `${f.marker}${escape(f.seriesName)} <b>${number(f.value[1])}</b> ${escape(data.unit)}`);
        return [head, ...rows].join("<br>");
      } },
      xAxis: { type: "value", min: "dataMin", max: "dataMax", name: `time, ${data.timeUnit}`,
        nameLocation: "middle", nameGap: 24, nameTextStyle: label, splitLine: { show: false },
        axisLine: { lineStyle: { color: css("--line") } },
        axisLabel: { ...label, showMaxLabel: false, showMinLabel: false, hideOverlap: true } },
      yAxis: { type: "value", scale: !data.zero, splitNumber: 5, axisLabel: label,
        splitLine: { lineStyle: { color: css("--line") } } },
      dataZoom: [data.last ? { type: "slider", height: 18, bottom: 8, showDetail: false, borderColor: css("--line"),
        fillerColor: css("--own-bg"), handleStyle: { color: css("--card"), borderColor: css("--own") },
        moveHandleStyle: { color: css("--line") }, emphasis: { moveHandleStyle: { color: css("--own") } },
        dataBackground: { lineStyle: { color: css("--line") }, areaStyle: { color: css("--faint") } },
        selectedDataBackground: { lineStyle: { color: css("--own") }, areaStyle: { color: css("--own-bg") } },
      } : { type: "inside", disabled: true }],
      series,
    };
  }

  for (const script of document.querySelectorAll("script.chart-data")) {
    const figure = document.getElementById(script.dataset.for);
    const fixed = figure.querySelector(".static");
    const live = figure.querySelector(".live");
    const data = JSON.parse(script.textContent);
    live.style.height = `${data.last ? 300 : 268}px`;
    live.hidden = false;
    try {
      const chart = echarts.init(live, null, { renderer: "svg" });
      const draw = () => chart.setOption(lines(data, live.clientWidth), { notMerge: true });
      draw();
      let width = live.clientWidth;
      new ResizeObserver(() => {
        if (live.clientWidth === width || !live.clientWidth) return;
        width = live.clientWidth;
        chart.resize();
        draw();
      }).observe(live);
      dark.addEventListener("change", draw);
      chart.group = data.group;
      echarts.connect(data.group); // one cursor and one zoom for all charts of a soak
      // What was really drawn, for whoever looks at the page by a program.
      const drawn = chart.getModel().getSeries();
      figure.dataset.series = drawn.length;
      figure.dataset.points = drawn.map((one) => one.getData().count()).join(" ");
      fixed.hidden = true;
    } catch (error) {
      live.hidden = true;
      console.error(error);
    }
  }
})();
